"""HEALTHCHECK of the image: status 0 if the node in this container answers `GET /healthz` with 200, 1 if not.

EPOXY_HEALTH_URL names another address than http://127.0.0.1:7800/healthz. A certificate is not checked: it is for the
name that others use, and this question does not leave the container.
"""

import os
import ssl
import sys
import urllib.error
import urllib.request

DEFAULT_URL = "http://127.0.0.1:7800/healthz"
TIMEOUT_S = 5.0
"""Below the six seconds that the Dockerfile allows."""


def main() -> int:
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    url = os.environ.get("EPOXY_HEALTH_URL", DEFAULT_URL)
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S, context=unchecked) as answer:
            print(answer.status)
            return 0 if answer.status == 200 else 1
    except (OSError, ValueError) as error:
        print(f"{url}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
