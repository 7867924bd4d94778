"""Make the bucket of AWS_ENDPOINT_URL_S3 that S3_BUCKET_NAME names, unless it is there."""

from __future__ import annotations

import os
import sys
import time

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

_PATIENCE_SECONDS = 120


def create_bucket(name: str, region: str) -> None:
    """Wait until the store answers, then make the bucket; one that is there is left alone."""
    client = boto3.client(
        "s3", region_name=region, config=Config(s3={"addressing_style": "path"}, connect_timeout=5)
    )
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            if name not in {one["Name"] for one in client.list_buckets()["Buckets"]}:
                client.create_bucket(Bucket=name)
            return
        except (BotoCoreError, ClientError) as error:
            if time.monotonic() > deadline:
                sys.exit(f"the bucket {name} could not be made: {error}")
            time.sleep(2)


if __name__ == "__main__":
    create_bucket(os.environ["S3_BUCKET_NAME"], os.environ.get("AWS_REGION", "us-east-1"))
