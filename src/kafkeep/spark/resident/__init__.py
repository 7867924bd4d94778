"""The resident session: a local Spark Connect server that later commands share."""
