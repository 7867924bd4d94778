"""Checks of this machine, of Kafka and of the store, each answered pass, warn or fail."""

from kafkeep.care.doctor.examine import DoctorPlaces, examine
from kafkeep.check import Check, Verdict

__all__ = ["Check", "DoctorPlaces", "Verdict", "examine"]
