"""Checks of this machine, of Kafka and of the store, each answered pass, warn or fail."""

from kafkeep.care.doctor.check import Check, Verdict
from kafkeep.care.doctor.examine import DoctorPlaces, examine

__all__ = ["Check", "DoctorPlaces", "Verdict", "examine"]
