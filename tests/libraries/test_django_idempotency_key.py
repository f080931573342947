"""django-idempotency-key: responses in the cache, looked up under a lock of redis-py that all processes share."""

import pytest
from django.test import Client

from tests.libraries.django_site import orders

pytestmark = pytest.mark.usefixtures("site")


def test_an_order_that_comes_twice_is_carried_out_once() -> None:
    browser = Client()
    first = browser.post("/order/tea", {"n": "1"}, headers={"Idempotency-Key": "k1"})
    again = browser.post("/order/tea", {"n": "1"}, headers={"Idempotency-Key": "k1"})
    other = browser.post("/order/tea", {"n": "1"}, headers={"Idempotency-Key": "k2"})
    assert [each.status_code for each in (first, again, other)] == [201, 409, 201]
    assert [each.text for each in (first, again, other)] == ["receipt 1", "receipt 1", "receipt 2"]
    assert orders["tea"] == 2
