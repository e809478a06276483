"""The explorer's command, its server and the address of its page."""

import http.client
import itertools
import re
import socket
import time
from types import SimpleNamespace

import param
import psutil
import pytest
from tornado.escape import parse_qs_bytes
from tornado.httputil import HTTPHeaders

from analysis.explorer import url_state
from analysis.explorer.server import NONCE_PLACEHOLDER, UNUSED_SECONDS, SecurityHeaders
from analysis.panels.colours import colour
from analysis.panels.style import style_in_use
from tests.browser import (
    SECONDS,
    change_colour_scheme,
    open_page,
    show_browser_tab,
)


def asked(server, path="/", method="GET", **headers):
    """Status, headers and text of the answer to a request, whose path goes as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    text = "" if answer.status == 101 else answer.read().decode("utf-8", "replace")
    connection.close()
    return answer.status, answer.headers, text


# -------------------------------------------------------------------------- the command


@pytest.mark.parametrize(
    "words", ["--port -1", "--port 70000", "--run 3", "--export page.html"]
)
def test_options_that_do_not_fit_are_refused(output_of, words):
    error = output_of(f"analysis.explore {words} --no-browser", code=2)
    assert words.split()[0] in error


def test_a_port_in_use_is_reported(output_of):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        error = output_of("analysis.explore --no-browser --port", port, code=2)
    assert "--port" in error
    assert "in use" in error


@pytest.mark.parametrize("name", ["text.nc", "folder.nc", "missing.nc"])
def test_a_file_that_is_no_trajectory_is_reported(output_of, tmp_path, name):
    (tmp_path / "text.nc").write_text("words")
    (tmp_path / "folder.nc").mkdir()
    assert name in output_of(f"analysis.explore {name} --no-browser --port 0", code=1)


# --------------------------------------------------------------------------- the server


def test_the_server_listens_on_this_machine_only(explorer):
    connections = psutil.Process(explorer.process.pid).net_connections()
    listening = [item.laddr for item in connections if item.status == "LISTEN"]
    assert listening == [("127.0.0.1", explorer.port)]
    interfaces = itertools.chain(*psutil.net_if_addrs().values())
    others = {item.address for item in interfaces if item.family == socket.AF_INET}
    for other in {"127.0.0.2", *others} - {"127.0.0.1"}:
        with pytest.raises(OSError, match=r"refused|assign"):
            socket.create_connection((other, explorer.port), timeout=SECONDS)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "0.0.0.0:{port}",
    ],
)
def test_requests_for_another_host_are_refused(explorer, host):
    for path in ("/", "/static/js/bokeh.min.js", "/ws"):
        status, _, text = asked(explorer, path, Host=host.format(port=explorer.port))
        assert status == 403
        assert "127.0.0.1" in text
    assert asked(explorer, Host=f"localhost:{explorer.port}")[0] == 200
    assert asked(explorer, Host="127.0.0.1:99")[0] == 403


def test_a_websocket_of_another_origin_is_refused(explorer):
    token = re.search(r'"token":"([^"]+)"', asked(explorer)[2]).group(1)
    opening = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec_WebSocket_Protocol": f"bokeh, {token}",
    }
    port = explorer.port
    for origin, status in (
        (f"http://127.0.0.1:{port}", 101),
        ("http://evil.example", 403),
        (f"http://127.0.0.1:{port + 1}", 403),
        (f"http://evil.example:{port}", 403),
        ("null", 403),
    ):
        assert asked(explorer, "/ws", Origin=origin, **opening)[0] == status
    opening["Sec_WebSocket_Protocol"] = "other"
    assert asked(explorer, "/ws", **opening)[0] == 400


@pytest.mark.parametrize(
    ("query", "status"),
    [("tab=" + 70_000 * "a", 414), ("bokeh-session-id=chosen", 403)],
)
def test_long_addresses_and_chosen_session_ids_are_refused(explorer, query, status):
    assert asked(explorer, "/?" + query)[0] == status


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/etc/passwd",
        "//etc/passwd",
        "/static/../../../../../etc/passwd",
        "/static/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/static/..%2f..%2f..%2fetc/passwd",
        "/static//etc/passwd",
        "/static/js/%00",
        "/static/js/bokeh.min.js%00.html",
        "/static/js/..\\..\\secret",
        "/particles.nc",
        "/runs/particles.nc",
        "/static/",
        "/static/js",
        "/static/js/",
        "/components/panel.models/x",
        "/metadata",
        "/autoload.js",
        "/static/extensions/panel/../../../x",
    ],
)
def test_no_url_path_leads_to_a_file(explorer, path):
    status, headers, text = asked(explorer, path)
    assert status in (400, 403, 404)
    assert "root:" not in text
    assert "Traceback" not in text
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_security_headers(explorer):
    status, headers, text = asked(explorer)
    assert status == 200
    assert headers["Cache-Control"] == "no-store"
    parts = headers["Content-Security-Policy"].split(";")
    policy = dict(part.strip().split(" ", 1) for part in parts)
    assert policy["default-src"] == "'none'"
    assert "unsafe-inline" not in policy["script-src"]
    assert not re.search(r"https?:|\*", " ".join(policy.values()))
    nonce = re.search(r"'nonce-([\w-]+)'", policy["script-src"]).group(1)
    assert text.count("<script") == text.count(f'<script nonce="{nonce}"') > 2
    assert f"nonce-{nonce}" not in asked(explorer)[1]["Content-Security-Policy"]
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?:https?:)?//""", text)


def test_a_script_in_a_text_does_not_run():
    said = f'<script>1</script><script nonce="{NONCE_PLACEHOLDER}">2</script>'
    content = {"Content-Type": "text/html; charset=utf-8"}
    given = HTTPHeaders({**content, "Content-Length": str(len(said))})
    transform = SecurityHeaders(SimpleNamespace(host="127.0.0.1:1"))
    _, headers, text = transform.transform_first_chunk(200, given, said.encode(), True)
    nonce = re.search(r"'nonce-([\w-]+)'", headers["Content-Security-Policy"]).group(1)
    assert text.decode() == f'<script>1</script><script nonce="{nonce}">2</script>'
    assert int(headers["Content-Length"]) == len(text)


# -------------------------------------------------------------------------- the address


class Some(param.Parameterized):
    rate = param.Number(0.5, bounds=(0, 2))
    count = param.Integer(3, bounds=(1, 9))
    kind = param.Selector(objects={"a word": 1.0, "two": 2.0}, default=1.0)
    text = param.String("")
    inner = param.Integer(7, precedence=-1)


def test_settings_survive_the_round_trip_through_the_url():
    settings = Some(rate=1.25, count=4, kind=2.0, text="a b")
    query, again = url_state.url_query(settings, {"tab": "some"}), Some()
    assert query == "tab=some&rate=1.25&count=4&kind=2&text=a+b"
    assert url_state.read_url_state(parse_qs_bytes(query), again, ("tab",)) == []
    assert url_state.url_query(again, {"tab": "some"}) == query


INVALID = """rate=abc rate=nan rate=inf rate=-1 rate= count=2.5
count=99999999999999999999 kind=3 inner=1 unknown=1 rate=%FF%FE
<script>=1 name=other rate=1&rate=2"""


@pytest.mark.parametrize("query", [*INVALID.split(), "count=" + 5000 * "1"])
def test_invalid_and_repeated_values_in_the_url_are_reported(query):
    ((name, values),) = parse_qs_bytes(query, keep_blank_values=True).items()
    settings = Some()
    before = settings.param.values()
    (refused,) = url_state.read_url_state({name: values}, settings)
    assert settings.param.values() == before
    assert refused.field == name
    assert refused.allowed
    assert len(str(refused)) < 300


def test_valid_values_of_a_url_are_set_together():
    settings, heard = Some(), []
    settings.param.watch(
        lambda *events: heard.append({event.name for event in events}),
        ["rate", "count", "kind"],
    )
    url_state.read_url_state(parse_qs_bytes("rate=1&count=x&kind=2"), settings)
    assert heard == [{"rate", "kind"}]


# ----------------------------------------------------------------------- in the browser


def button(page, name):
    return page.get_by_role("button", name=name)


def textbox(page, name):
    return page.get_by_role("textbox", name=name)


def wait_for_query(page, words):
    page.wait_for_function(f"() => location.search.includes('{words}')")


def test_a_page_without_files_explains_how_to_make_runs_and_its_server_ends_quietly(
    served, chromium_page
):
    server, context = served(), chromium_page.context
    page = context.new_page()
    page.goto(server.address)
    button(page, "Runs").click()
    page.get_by_text("python -m sims.particles").wait_for()
    button(page, "Particles").click()
    button(page, "Start").click()
    page.wait_for_timeout(500)
    page.close()
    time.sleep(UNUSED_SECONDS + 2.5)  # until the session has ended
    process = psutil.Process(server.process.pid)
    before = sum(process.cpu_times()[:2])
    time.sleep(1)
    assert sum(process.cpu_times()[:2]) - before < 0.2
    page = context.new_page()
    open_page(page, server.address)
    page.close()  # its session goes on for some seconds
    assert server.interrupt()[::2] == (130, "interrupted: the page has ended\n")


def wait_for_rest(page):
    """The step that the page shows, when it stays the same; one that was sent before
    the pause may still arrive."""
    shown = page.get_by_text(re.compile(r"^step \d"))
    for _ in range(5):
        step = shown.inner_text()
        page.wait_for_timeout(500)
        if shown.inner_text() == step:
            return step
    raise AssertionError("the hidden tab went on")


def test_a_hidden_tab_is_paused(explorer, chromium_page):
    page = chromium_page
    open_page(page, explorer.address)
    button(page, "Particles").click()
    button(page, "Start").click()
    page.get_by_text(re.compile(r"^step [1-9]")).wait_for()
    button(page, "Runs").click()
    button(page, "Reset").wait_for(state="detached")
    button(page, "Particles").click()
    button(page, "Start").wait_for()
    wait_for_rest(page)
    assert page.locator(".tabs .bk-active").inner_text() == "Particles"


def test_a_hidden_tab_of_the_browser_pauses_and_goes_on_when_it_is_visible(
    explorer, chromium_page
):
    page = chromium_page
    open_page(page, explorer.address + "?tab=particles")
    for running in (False, True):
        if running:
            page.keyboard.press("Space")
            page.get_by_text(re.compile(r"^step [1-9]")).wait_for()
        show_browser_tab(page, False)
        button(page, "Start").wait_for()
        step = wait_for_rest(page)
        show_browser_tab(page, True)
        button(page, "Pause" if running else "Start").wait_for()
        if running:
            page.get_by_text(step, exact=True).wait_for(state="detached")
    page.keyboard.press("Space")


SCHEMES = {"light": "rgb(251, 251, 250)", "dark": "rgb(13, 15, 18)"}
"""Colour schemes of readers, and the background of the page in each."""
FIGURE_COLOURS = """() => [...(window.Bokeh?.index.all_views() ?? [])].filter(({model}) =>
  model.type == "Figure").map(({model}) => model.background_fill_color)"""


def assert_buttons_fit(page):
    """On a small screen buttons do not overlap."""
    page.set_viewport_size({"width": 1000, "height": 700})
    button(page, "Save as PNG").first.wait_for()
    page.wait_for_timeout(300)
    # marks of events may lie close to one another; the buttons beside them lead to the
    # same events
    boxes = [
        item.bounding_box()
        for item in page.locator("button:not([data-to])").all()
        if item.is_visible()
    ]
    assert all(0 <= box["x"] <= 1000 - box["width"] for box in boxes)
    assert not any(boxes_overlap(*pair) for pair in itertools.combinations(boxes, 2))


def assert_picture_above_controls(page, tab):
    """On a phone."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(500)
    figure = page.locator(".bk-Figure").first.bounding_box()
    assert figure["y"] < 450
    assert figure["width"] > 300
    controls = "select[multiple]" if tab == "runs" else "input"
    last = page.locator(f"{controls} >> visible=true").last
    assert last.bounding_box()["y"] > figure["y"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize(
    "tab",
    [
        "story",
        "runs",
        *(
            pytest.param(tab, marks=pytest.mark.slow)
            for tab in ("particles", "training", "transformer")
        ),
    ],
)
def test_a_tab_is_accessible_in_each_colour_scheme_and_fits_on_small_screens(
    explorer, chromium_page, violations, tab
):
    page = chromium_page
    open_page(page, f"{explorer.address}?tab={tab}")
    for scheme, page_colour in SCHEMES.items():
        change_colour_scheme(page, scheme)
        with style_in_use("dark" if scheme == "dark" else "screen"):
            expected = [] if tab == "story" else [colour("background")]
        page.wait_for_function(
            f"(expected) => {{ const colours = ({FIGURE_COLOURS})();"
            " return colours.every(it => it == expected[0]) &&"
            " colours.length >= expected.length }",
            arg=expected,
        )
        page.wait_for_timeout(300)
        style = "getComputedStyle(document.documentElement).backgroundColor"
        assert page.evaluate(style) == page_colour
        assert violations(page) == []
    if tab != "story":
        assert_buttons_fit(page)
        assert_picture_above_controls(page, tab)


def test_a_changed_colour_scheme_keeps_the_view(explorer, chromium_page):
    page = chromium_page
    open_page(page, f"{explorer.address}?tab=particles&seed=4&fa=2")
    wait_for_query(page, "step_size")
    change_colour_scheme(page, "dark")
    page.wait_for_function(
        f"(dark) => window.Bokeh && ({FIGURE_COLOURS})()[0] == dark", arg="#14171b"
    )
    assert textbox(page, "seed").input_value() == "4"


def boxes_overlap(first, second):
    """Whether two rectangles of the page overlap by more than a border."""
    return not any(
        one["x"] + one["width"] <= other["x"] + 1
        or one["y"] + one["height"] <= other["y"] + 1
        for one, other in ((first, second), (second, first))
    )


def test_keys_open_tabs_and_start_runs_but_not_while_typing(explorer, chromium_page):
    page = chromium_page
    open_page(page, explorer.address)
    page.keyboard.press("3")
    seed = textbox(page, "seed")
    seed.fill("3")
    seed.press("1")
    assert seed.input_value() == "31"
    seed.press("Enter")
    wait_for_query(page, "seed=31")
    seed.evaluate("(field) => field.blur()")
    for key, step in (("ArrowRight", 1), ("ArrowRight", 2), ("Home", 0)):
        page.keyboard.press(key)
        page.get_by_text(f"step {step}", exact=True).wait_for()
    with page.expect_download() as saved:
        button(page, "Save as PNG: embedding and forces").click()
    assert saved.value.suggested_filename == "particles-seed31-step0-embedding.png"
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    page.keyboard.press("1")
    page.keyboard.press("Escape")
    page.get_by_role("dialog", name="Keys").wait_for(state="hidden")
    assert page.locator(".tabs .bk-active").inner_text() == "Particles"
    page.keyboard.press("2")
    page.get_by_role("slider", name="Frame").wait_for()


def test_the_url_follows_what_is_shown(explorer, chromium_page):
    page = chromium_page
    open_page(page, explorer.address + "?tab=particles&fa=2&n=7&seed=3")
    slider = page.get_by_role("slider", name="alignment fₐ")
    assert float(slider.get_attribute("aria-valuenow")) == 2
    wait_for_query(page, "step_size=0.003")
    textbox(page, "seed").press("ArrowUp")
    wait_for_query(page, "seed=4")
    assert "fa=2" in page.evaluate("location.search")
    open_page(page, page.url)
    assert textbox(page, "seed").input_value() == "4"


def test_invalid_values_in_the_url_are_reported_on_the_page(explorer, chromium_page):
    page = chromium_page
    page.goto(explorer.address + "?tab=particles&fa=abc&n=1e9&dim=3&<img%20src=x>=1")
    page.get_by_text("fa: found abc, allowed is a number from 0 to 5").wait_for()
    page.get_by_text("n: found 1e9").wait_for()
    page.get_by_text("<img src: found").wait_for()
    slider = page.get_by_role("slider", name="alignment fₐ")
    assert float(slider.get_attribute("aria-valuenow")) == 1
    assert textbox(page, "dimensions D").input_value() == "3"
    page.wait_for_function(
        "() => location.search.includes('fa=1&') && !location.search.includes('abc')"
    )
    page.goto(explorer.address + "?tab=nowhere")
    page.get_by_text(
        "tab: found nowhere, allowed is one of story, runs, particles, training,"
        " transformer"
    ).wait_for()


def test_a_second_visitor_has_an_own_page(explorer, chromium_page):
    first, second = chromium_page, chromium_page.context.new_page()
    for page in (first, second):
        open_page(page, explorer.address + "?tab=particles")
    textbox(first, "seed").press("ArrowUp")
    wait_for_query(first, "seed=27")
    assert textbox(second, "seed").input_value() == "26"
