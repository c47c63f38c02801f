"""The web page's files and logins, without a browser: headers, cookies, and what a cookie is good for."""

from collections.abc import Iterator

import pytest

from .gateway_fakes import PASSWORD, Reply, Service, parts, with_cart

API = "/api/v1"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
HOST = {"Host": "service.example:8000"}
EVIL = {**HOST, "Origin": "https://evil.example"}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """With the page, and alice's agent ``cart``."""
    with with_cart({"listen.behind_proxy": "[10.0.0.1]"}) as service:
        yield service


def log_in(service: Service, password: str = PASSWORD, *, peer: str = "1.2.3.4", **headers: str) -> Reply:
    body = f"username=alice&password={password.replace(' ', '+')}".encode()
    return service("POST", "/login", body, user=None, headers={**FORM, **headers}, peer=peer)


def cookie(reply: Reply) -> str:
    assert reply.status == 204
    return reply.headers["set-cookie"].partition(";")[0]


def get(service: Service, path: str, cookie: str, **headers: str) -> Reply:
    return service("GET", path, user=None, headers={"Cookie": f"a=b; {cookie}; c=d", **headers})


def test_the_files(service: Service) -> None:
    kinds = {"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript", "/icon.svg": "image/svg+xml"}
    for path, kind in kinds.items():
        found = service("GET", path, user=None)
        assert (found.status, found.headers["content-type"].partition(";")[0]) == (200, kind)
        policy = found.headers["content-security-policy"].split("; ")
        assert policy[:5] == [
            "default-src 'none'",
            *(f"{one}-src 'self'" for one in ("script", "style", "connect", "img")),
        ]
        assert "frame-ancestors 'none'" in policy
        assert (found.headers["x-content-type-options"], found.headers["referrer-policy"]) == ("nosniff", "no-referrer")
        assert service("POST", path, user=None).code == "method_not_allowed"
    for path in ("/page.html", "/page.js.map", "/__init__.py", "/..%2fcalls.py", "/login/x"):
        assert service("GET", path, user=None).code == "not_found"
    assert service("GET", "/login", user=None).code == "method_not_allowed"


def test_a_login_is_a_cookie_that_scripts_do_not_see(service: Service) -> None:
    made = log_in(service)
    name, value = cookie(made).split("=")
    assert name == "axonrl-0"
    assert value.startswith("axw_")
    assert made.headers["set-cookie"].split("; ")[1:] == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert made.body == b""
    secure = log_in(service, peer="10.0.0.1", **{"X-Forwarded-Proto": "https"}).headers["set-cookie"]
    assert secure.startswith("__Host-axonrl-0=axw_")
    assert secure.split("; ")[1:] == ["Path=/", "HttpOnly", "SameSite=Strict", "Secure"]
    in_parts = parts(b"username=", f"alice&password={PASSWORD.replace(' ', '+')}".encode())
    assert service("POST", "/login", in_parts, user=None, headers={**FORM, **HOST}).status == 204
    assert service.holds_nothing()


def test_a_refused_login_sets_nothing(service: Service) -> None:
    refused = log_in(service, "wrong", peer="1.2.3.5")
    assert (refused.code, refused.headers.get("set-cookie")) == ("invalid_credentials", None)
    unknown = service("POST", "/login", b"username=nobody&password=x", user=None, headers=FORM, peer="1.2.3.5")
    assert (unknown.code, unknown.json["detail"]) == (refused.code, refused.json["detail"])
    assert (
        service("POST", "/login", {"username": "alice"}, user=None, headers={"Content-Type": "application/json"}).status
        == 415
    )
    assert service("POST", "/login", b"x" * 17_000, user=None, headers=FORM).code == "body_too_large"


def test_a_new_login_ends_the_one_before(service: Service) -> None:
    first = cookie(log_in(service))
    second = cookie(log_in(service, Cookie=first))
    assert first != second
    assert get(service, f"{API}/agents", first).code == "invalid_token"
    assert get(service, f"{API}/agents", second).status == 200
    given = cookie(log_in(service, Cookie="axonrl-0=axw_chosen_by_somebody_else"))
    assert "chosen" not in given


def test_a_logout_ends_the_login_at_the_server(service: Service) -> None:
    known = cookie(log_in(service))
    assert get(service, "/session", known).json == {"user": "alice"}
    ended = service("POST", "/logout", user=None, headers={"Cookie": known})
    assert cookie(ended) == "axonrl-0="
    assert "Max-Age=0" in ended.headers["set-cookie"]
    assert get(service, f"{API}/agents", known).code == "invalid_token"
    assert get(service, "/session", known).json == {"user": None}
    assert service("POST", "/logout", user=None, headers={"Cookie": known}).code == "invalid_token"
    assert service("POST", "/logout", user=None).code == "missing_token"


def test_a_cookie_reads_what_is_ones_own(service: Service) -> None:
    known = cookie(log_in(service))
    assert [agent["name"] for agent in get(service, f"{API}/agents", known).json] == ["cart"]
    assert get(service, f"{API}/agents/cart/episodes?limit=10&after=0", known).json == []
    tokens = get(service, f"{API}/tokens", known).json
    assert [token["name"] for token in tokens] == ["test"]
    assert "token" not in tokens[0]
    assert get(service, f"{API}/users", known).code == "forbidden_scope"
    assert get(service, f"{API}/audit", known).code == "forbidden_scope"
    assert get(service, "/metrics", known).code == "forbidden_scope"
    assert service("GET", f"{API}/tokens", user=service.token("alice", "read")).code == "forbidden_scope"


def test_a_cookie_changes_nothing(service: Service) -> None:
    known = {"Cookie": cookie(log_in(service))}
    calls = [("POST", "/agents"), ("POST", "/agents/cart/act"), ("POST", "/agents/cart/step"), ("POST", "/tokens")]
    calls += [("PATCH", "/agents/cart"), ("DELETE", "/agents/cart"), ("PUT", "/agents/cart/state"), ("POST", "/logout")]
    for method, path in calls:
        assert service(method, API + path, {}, user=None, headers=known).code == "missing_token", path
    value = known["Cookie"].partition("=")[2]
    assert service("GET", f"{API}/agents", user=value).code == "invalid_token"  # nor is it a token
    as_cookie = f"axonrl-0={service.tokens['alice']}"
    assert get(service, f"{API}/agents", as_cookie).code == "invalid_token"  # nor a token a cookie


@pytest.mark.parametrize("more", [EVIL, {**HOST, "Sec-Fetch-Site": "same-site"}])
def test_pages_of_others_cannot_use_it(service: Service, more: dict[str, str]) -> None:
    known = cookie(log_in(service))
    headers = {"Cookie": known, **more}
    answers = [service("POST", path, {}, user=None, headers=headers) for path in (f"{API}/agents", "/logout")]
    answers.append(service("GET", f"{API}/agents", user=None, headers=headers))
    for answer in answers:
        assert (answer.status, answer.code) == (401, "missing_token")
        assert not any(name.startswith("access-control") for name in answer.headers)
    asked = {**headers, "Access-Control-Request-Method": "POST"}
    preflight = service("OPTIONS", f"{API}/agents", user=None, headers=asked)
    assert preflight.status == 401
    assert not any(name.startswith("access-control") for name in preflight.headers)
    assert log_in(service, **more).code == "invalid_request"  # nobody is logged in as somebody else
    assert get(service, f"{API}/agents", known).status == 200


@pytest.mark.parametrize(
    "more",
    [
        {**HOST, "Origin": "https://service.example:8000"},
        {**EVIL, "Sec-Fetch-Site": "same-origin"},  # a proxy that changed Host
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_its_own_page_can(service: Service, more: dict[str, str]) -> None:
    assert get(service, f"{API}/agents", cookie(log_in(service, **more)), **more).status == 200
