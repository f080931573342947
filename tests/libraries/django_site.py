"""A site of Django with the settings of the manuals. They are one for each process, so the tests share them."""

from collections import Counter

import django
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import path
from idempotency_key.decorators import idempotency_key

from tests.libraries.judge import Doors

orders: Counter[str] = Counter()
"""How often each order was carried out."""


@idempotency_key
def order(_: HttpRequest, name: str) -> HttpResponse:
    orders[name] += 1
    return HttpResponse(f"receipt {orders[name]}", status=201)


urlpatterns = [path("order/<name>", order)]


def configure(doors: Doors) -> None:
    backends = {"default": "django.core.cache.backends.redis.RedisCache", "other": "django_redis.cache.RedisCache"}
    settings.configure(
        ALLOWED_HOSTS=["testserver"],
        CACHES={name: {"BACKEND": backend, "LOCATION": doors.url} for name, backend in backends.items()},
        SESSION_ENGINE="django.contrib.sessions.backends.cache",
        ROOT_URLCONF="tests.libraries.django_site",
        MIDDLEWARE=["idempotency_key.middleware.IdempotencyKeyMiddleware"],
        IDEMPOTENCY_KEY={
            "STORAGE": {"CLASS": "idempotency_key.storage.CacheKeyStorage"},
            "LOCK": {"CLASS": "idempotency_key.locks.redis.MultiProcessRedisLock", "LOCATION": doors.url},
        },
    )
    django.setup()
