"""The web page in a browser, of a real server with a real agent."""

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.serving import RemoteAgent
from axonrl.serving.accounts import Accounts, open_service

from .browser import Browser, browsing
from .for_accounts import PASSWORD
from .live import Server, running
from .service import SMALL

IMAGE = "<img src=/livez onerror='document.title=1'>"
CONTRAST = """[...document.querySelectorAll("body *")].map((node) => {
  const text = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
  if (!text || !node.checkVisibility() || node.closest("template, .skip, .hidden")) return null;
  const shine = (color) => {
    const part = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const [red, green, blue] = color.match(/[\\d.]+/g).map(Number);
    return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  };
  let behind = node;
  while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  const style = getComputedStyle(node);
  const front = node instanceof SVGElement ? style.fill : style.color;
  const both = [shine(front), shine(getComputedStyle(behind).backgroundColor)].sort((a, b) => a - b);
  return [(both[1] + 0.05) / (both[0] + 0.05), node.textContent.trim().slice(0, 40)];
}).filter((found) => found && found[0] < 4.5)"""

"""Texts that are hard to read: their contrast to what is behind them, and the text."""
NAMELESS = """[...document.querySelectorAll("a, button, input, svg")].filter((node) =>
  !(node.textContent.trim() || node.labels?.length || node.ariaLabel)).map((node) => node.outerHTML)"""
"""What a screen reader has no name for."""
WIDTHS = (1100, 320)
VIEWS = {"Agents": "#/", "Tokens": "#/tokens", "cart": "#/agents/cart"}


def client(served: Server, name: str = "cart", **more: Any) -> RemoteAgent:
    return RemoteAgent(name, url=served.url, username="alice", password=PASSWORD, **more)


@pytest.fixture(scope="module")
def served(built: Callable[..., Any], programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With alice's agents ``cart``, which has ended 30 episodes, and one with a name that is HTML."""
    built("dqn", {**SMALL, "state_size": 4, "action_size": 2})
    data = tmp_path_factory.mktemp("page") / "data"
    database = open_service(data)
    accounts = Accounts(database)
    accounts.add_user("alice", PASSWORD)
    accounts.create_token("alice", IMAGE, ["read"])
    database.close()
    (data / "programs").symlink_to(programs)
    with running(Server(data)) as served:
        for name in ("cart", "other"):
            made = client(served, name, description=f"A pole on a cart. {IMAGE}", environment=IMAGE, **SMALL)
            made.create_agent(4, 2, "dqn")
            play(made, 30)
        with sqlite3.connect(data / "service.db") as connection:  # no name that the service takes
            connection.execute("UPDATE agents SET name = ? WHERE name = 'other'", [IMAGE])
        connection.close()
        yield served


def play(agent: RemoteAgent, episodes: int) -> None:
    """Episodes of 3 to 9 timesteps, each with the return 1 for a timestep."""
    dice = random.Random(episodes)
    for _ in range(episodes):
        length = dice.randint(3, 9)
        states = [[dice.random() for _ in range(4)] for _ in range(length)]
        ends = [False] * (length - 1) + [True]
        agent.step_batch(states, [dice.randrange(2) for _ in states], [1.0] * length, states, ends)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def page(served: Server, browser: Browser) -> Iterator[Browser]:
    """The page, before a login; nothing went wrong on it when a test is through."""
    browser.ask("Network.clearBrowserCookies")
    browser.look(1100, 800)
    browser.go("about:blank")
    browser.errors.clear()
    browser.go(served.url)
    browser.wait("document.activeElement.id === 'username'")
    yield browser
    assert browser.errors == []


def log_in(page: Browser, password: str = PASSWORD) -> None:
    page.type("#username", "alice")
    page.press("Tab")
    page.ask("Input.insertText", text=password)
    page.press("Enter")


def open_agent(page: Browser, name: str = "cart") -> None:
    page.wait(f"[...document.querySelectorAll('tbody a')].find((link) => link.textContent === {json.dumps(name)})")
    page.run(
        f"[...document.querySelectorAll('tbody a')].find((link) => link.textContent === {json.dumps(name)}).click()"
    )


def field(page: Browser, name: str) -> str:
    return page.text(f"[data-field={name}]")


def cookies(page: Browser) -> list[Any]:
    found: list[Any] = page.ask("Network.getCookies")["cookies"]
    return found


def test_a_login_shows_ones_agents(page: Browser, served: Server) -> None:
    log_in(page, "wrong")
    page.wait("document.querySelector('.problem').textContent")
    assert page.text(".problem") == "The name or the password is not correct."
    assert page.run("document.activeElement.id") == "password"
    assert [error.partition(" ")[0] for error in page.errors] == ["Failed"]  # the browser's own words for a 400
    page.errors.clear()
    assert cookies(page) == []
    log_in(page)
    page.wait("document.querySelectorAll('tbody tr').length === 2")
    row = page.run("[...document.querySelector('tbody tr:last-child').cells].map((cell) => cell.innerText)")
    info = client(served).info()["counters"]
    assert row[:3] == ["cart", "dqn", "ready"]
    counted = [info["global_timestep"], info["global_step"], info["global_episode"]]
    assert [int(cell.replace(",", "")) for cell in row[3:6]] == counted
    assert counted[2] == 30
    assert (page.text("#user"), page.run("document.activeElement.tagName")) == ("alice", "H1")
    assert (len(cookies(page)), page.run("document.cookie")) == (1, "")
    page.run("document.querySelector('#logout').click()")
    page.wait("document.activeElement.id === 'username'")
    assert (cookies(page), page.text(".problem")) == ([], "")
    assert not page.run("document.querySelector('#nav').checkVisibility()")


def test_the_curve_grows_while_steps_arrive(page: Browser, served: Server) -> None:
    log_in(page)
    open_agent(page)
    page.wait("document.querySelector('#returns path.mean')")
    agent = client(served)
    before = int(field(page, "episodes"))
    path, losses = page.run("document.querySelector('#returns path.one').getAttribute('d')"), "#losses path.loss"
    for more in (2, 3):
        play(agent, more)
        before += more
        page.wait(f"document.querySelector('[data-field=episodes]').innerText === '{before}'")
    grown = page.run("document.querySelector('#returns path.one').getAttribute('d')")
    assert len(grown.split("L")) == len(path.split("L")) + 5
    assert len(page.run(f"document.querySelector('{losses}').getAttribute('d')").split("L")) >= 2
    last = agent.episodes()[-1]
    mean = agent.info()["episode_return_mean"]
    assert page.text("#returns .reading").startswith(f"Episode {before}: return {last['episode_return']:g}, mean ")
    assert abs(float(field(page, "mean")) - mean) < 0.005
    assert page.text(".last tbody tr").split("\t")[:2] == [str(before), f"{last['episode_return']:g}"]
    assert str(before) in page.run("document.querySelector('#returns svg').getAttribute('aria-label')")
    assert (page.text(".live"), page.text("#notice")) == ("Live", "")


def test_a_page_that_is_not_seen_asks_nothing(page: Browser) -> None:
    log_in(page)
    page.wait("document.querySelector('tbody tr')")
    page.run("""
        window.asked = 0; const fetched = window.fetch, timed = window.setTimeout;
        window.fetch = (...all) => { window.asked += 1; return fetched(...all); };
        window.setTimeout = (what, wait) => timed(what, wait / 100);  // its 2 s take 20 ms
        window.away = false; Object.defineProperty(document, "hidden", { get: () => window.away });
        window.turn = (away) => { window.away = away; document.dispatchEvent(new Event("visibilitychange")); };
    """)
    page.wait("window.asked > 3")
    page.run("window.turn(true), window.asked = 0")
    page.run("new Promise((done) => setTimeout(done, 30000))")  # 300 ms
    assert page.run("window.asked") == 0
    page.run("window.turn(false)")
    assert page.run("window.asked") == 1
    page.wait("window.asked > 3")


def test_what_users_write_stays_text(page: Browser) -> None:
    log_in(page)
    page.wait("document.querySelectorAll('tbody tr').length === 2")
    assert page.text("tbody tr th") == IMAGE
    open_agent(page)
    page.wait("document.querySelector('.last tbody tr')")
    assert field(page, "description") == f"A pole on a cart. {IMAGE}"
    assert IMAGE in page.text(".last tbody")
    page.run("location.hash = '#/tokens'")
    page.wait("document.querySelectorAll('#main tbody tr').length > 1")
    assert IMAGE in page.run("[...document.querySelectorAll('tbody th')].map((cell) => cell.innerText)")
    page.run(f"location.hash = '#/agents/' + encodeURIComponent({json.dumps(IMAGE)})")
    page.wait("document.querySelector('#notice').textContent")
    assert page.text("h1") == IMAGE
    assert page.text("#notice").startswith("This does not exist. It may have been removed.")
    assert page.run("document.title") == f"{IMAGE} · axonrl"
    assert page.run("document.querySelectorAll('main img').length") == 0
    assert all("404" in error for error in page.errors)
    page.errors.clear()
    with pytest.raises(AssertionError, match="TrustedHTML"):  # were it forgotten once, the policy forbids it
        page.run("document.querySelector('h1').innerHTML = '<b>x</b>'")
    page.errors.clear()


def test_errors_are_told_in_words(page: Browser, served: Server) -> None:
    log_in(page)
    open_agent(page)
    page.wait("document.querySelector('#returns path.mean')")
    network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.ask("Network.emulateNetworkConditions", offline=True, **network)
    page.wait("document.querySelector('#notice').textContent")
    assert page.text("#notice").endswith("The server cannot be reached. Trying again every 2 seconds.")
    assert page.text(".live") == "Not live"
    page.ask("Network.emulateNetworkConditions", offline=False, **network)
    page.wait("!document.querySelector('#notice').textContent")
    assert page.text(".live") == "Live"
    (cookie,) = cookies(page)
    assert served.ask("POST", "/logout", Cookie=f"{cookie['name']}={cookie['value']}")[0] == 204
    page.wait("document.querySelector('form')")
    assert page.text(".problem") == "Your session has ended. Please log in again."
    log_in(page)
    page.wait("document.querySelector('#returns path.mean')")  # where one was
    assert {error.split()[0] for error in page.errors} == {"Failed"}
    page.errors.clear()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_can_be_read_everywhere(page: Browser, dark: bool, tmp_path: Path) -> None:
    seen = set()

    def look(name: str) -> None:
        for width in WIDTHS:
            page.look(width, 800, dark=dark)
            seen.add(page.picture(tmp_path / f"{name}_{width}.png", whole=True))
            assert page.run(CONTRAST) == [], (name, width)
            assert page.run("document.documentElement.scrollWidth") <= width, name
        assert page.run(NAMELESS) == [], name

    look("login")
    log_in(page)
    for name, place in VIEWS.items():
        page.wait("document.querySelector('nav').checkVisibility()")
        page.run(f"location.hash = {json.dumps(place)}")
        page.wait(f"document.title.startsWith({json.dumps(name)}) && document.querySelector('tbody tr')")
        look(name)
    assert len(seen) == len(WIDTHS) * 4
