"""A schema registry with Confluent's API: the only place that speaks to one."""
