"""flask-session: sessions of a web application, kept as strings that end."""

from datetime import timedelta

import flask
import redis
from flask_session import Session

from tests.libraries.judge import Doors, until


def application(port: int, lifetime: timedelta) -> flask.Flask:
    app = flask.Flask("shop")
    app.config.update(SESSION_TYPE="redis", SESSION_REDIS=redis.Redis(port=port), PERMANENT_SESSION_LIFETIME=lifetime)
    Session(app)

    @app.get("/add/<item>")
    def add(item: str) -> str:
        flask.session["cart"] = [*flask.session.get("cart", []), item]
        return ",".join(flask.session["cart"])

    @app.get("/cart")
    def cart() -> str:
        return ",".join(flask.session.get("cart", []))

    @app.get("/leave")
    def leave() -> str:
        flask.session.clear()
        return ""

    return app


def test_a_cart(doors: Doors) -> None:
    browser = application(doors.port, timedelta(days=1)).test_client()
    stranger = application(doors.port, timedelta(days=1)).test_client()
    assert browser.get("/add/tea").text == "tea"
    assert browser.get("/add/milk").text == "tea,milk"
    assert browser.get("/cart").text == "tea,milk"
    assert stranger.get("/cart").text == ""
    browser.get("/leave")
    assert browser.get("/cart").text == ""


def test_a_cart_ends(doors: Doors) -> None:
    app = application(doors.port, timedelta(seconds=1))
    browser = app.test_client()
    assert browser.get("/add/tea").text == "tea"
    client: redis.Redis = app.config["SESSION_REDIS"]
    (key,) = client.scan_iter("session:*")
    assert 0 < client.pttl(key) <= 1000
    until(lambda: not client.exists(key), "the session is over")
    assert browser.get("/cart").text == ""
