"""What the job installs before it runs ``trainer.task``."""

from setuptools import find_packages, setup

setup(
    name="line-trainer",
    version="0.1.0",
    packages=find_packages(),
    install_requires=["google-cloud-storage>=3,<4"],
)
