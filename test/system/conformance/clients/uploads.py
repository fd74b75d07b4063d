"""Usage: python3 uploads.py URL CA_FILE BYTES COUNT

POSTs a body COUNT times, one after the other, on one session of requests. Prints how often each status came as JSON.
"""

import collections
import json
import sys

import requests

url, ca, size, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
session = requests.Session()
session.trust_env = False
session.verify = ca
statuses = collections.Counter()
for _ in range(count):
    try:
        statuses[str(session.post(url, data=bytes(size)).status_code)] += 1
    except requests.RequestException as error:
        statuses[str(error)] += 1
print(json.dumps(statuses))
