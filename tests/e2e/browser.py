"""A real chromium, headless, for the console's test: Debian's chromium, chromium-driver and python3-selenium.

It keeps what a page may not do: violations of its policy, errors on its console, addresses it asked for. All methods raise or
return; what is right is said by the test.
"""

import json
import os
import shutil
import sys
import time

from fleet import PATIENCE, skip

WATCH = """
  window.testViolations = [];
  document.addEventListener('securitypolicyviolation', (e) =>
    window.testViolations.push(e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sourceFile + ':' + e.lineNumber));
"""

# Texts in sight whose contrast is too low: [ratio, text].
CONTRAST = """
  const part = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const ink = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (css) => { ink.clearRect(0, 0, 1, 1); ink.fillStyle = css; ink.fillRect(0, 0, 1, 1);
    const d = ink.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
  const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3]));
  const page = rgba(getComputedStyle(document.documentElement).backgroundColor);
  const ground = (e) => { const stack = [];
    for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor);
      if (c[3] > 0) stack.push(c); if (c[3] === 1) break; }
    let below = page[3] === 1 ? page.slice(0, 3) : matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
    for (const c of stack.reverse()) below = over(c, below);
    return below; };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    const e = n.parentElement;
    if (!n.data.trim() || !e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) || e.closest('[disabled],[aria-disabled=true]'))
      continue;
    const range = document.createRange(); range.selectNodeContents(n);
    const box = range.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;
    const s = getComputedStyle(e); const bg = ground(e); const fg = over(rgba(s.color), bg);
    const [a, b] = [light(fg), light(bg)].sort((x, y) => y - x);
    const size = parseFloat(s.fontSize);
    const need = size >= 24 || (size >= 18.66 && parseInt(s.fontWeight) >= 700) ? 3 : 4.5;
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < need - 0.01) found.push([ratio.toFixed(2), n.data.trim().slice(0, 40), e.tagName + '.' + e.className]);
  }
  return found;
"""

# A control by what it is and says: one that is drawn anew meanwhile is the same.
SAME = "const same = (e) => [e.tagName, e.id, e.getAttribute('href'), e.getAttribute('aria-label') ?? e.textContent.trim().slice(0, 60)].join(' ');"
# Everything that can be operated by Tab.
STOPS = SAME + """
  return [...document.querySelectorAll('a[href],button,input,select,textarea,summary,[tabindex]')].filter((e) =>
    e.tabIndex >= 0 && !e.disabled && e.checkVisibility({ checkVisibilityCSS: true }) && !e.closest('[inert]')).map(same);
"""

def need():
    """Starts the test again with the system's Python if that one has Selenium; skips without a browser."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        system = "/usr/bin/python3"
        if os.path.realpath(sys.executable) != os.path.realpath(system) and os.path.exists(system) \
                and "PROCFLEET_AGAIN" not in os.environ:
            os.environ["PROCFLEET_AGAIN"] = "1"
            os.execv(system, [system, "-B", *sys.argv])
        skip("python3-selenium is not installed (scripts/install-deps --browser)")
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            skip("%s is not installed (scripts/install-deps --browser)" % program)


class Browser:
    def __init__(self, directory, width=1440, height=900, logs=True):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        arguments = ["--headless=new", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                     "--disable-component-update", "--disable-sync", "--disable-extensions", "--no-default-browser-check",
                     "--disable-dev-shm-usage", "--force-device-scale-factor=1", "--hide-scrollbars",
                     "--window-size=%d,%d" % (width, height), "--user-data-dir=" + os.path.join(directory, "profile")]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        for a in arguments:
            options.add_argument(a)
        if logs:
            options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        os.environ["HOME"] = directory  # of chromedriver and chromium alone: nothing is written elsewhere
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.driver.set_script_timeout(30)
        self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        self.logs = logs
        self.urls = []
        self.errors = []

    def close(self):
        self.driver.quit()

    def open(self, url):
        self.driver.get(url)

    def js(self, code, *args):
        return self.driver.execute_script(code, *args)

    def cdp(self, method, **parameters):
        return self.driver.execute_cdp_cmd(method, parameters)

    def keys(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains
        chain = ActionChains(self.driver)
        for k in keys:
            chain.send_keys(k)
        chain.perform()

    def drag(self, element, x0, x1, y):
        """From x0 to x1, both and y in px from the element's upper left corner."""
        from selenium.webdriver.common.action_chains import ActionChains
        box = element.rect
        cx, cy = box["width"] / 2, box["height"] / 2
        ActionChains(self.driver, duration=50).move_to_element_with_offset(element, int(x0 - cx), int(y - cy)).click_and_hold() \
            .move_by_offset(int((x1 - x0) / 2), 0).move_by_offset(int(x1 - x0) - int((x1 - x0) / 2), 0).release().perform()

    def click(self, element, x, y):
        from selenium.webdriver.common.action_chains import ActionChains
        box = element.rect
        ActionChains(self.driver, duration=20).move_to_element_with_offset(
            element, int(x - box["width"] / 2), int(y - box["height"] / 2)).click().perform()

    def find(self, selector):
        from selenium.webdriver.common.by import By
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector="body"):
        return self.js("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def wait(self, what, condition, patience=20):
        """condition: JavaScript expression, or a function; returns its value once it is true."""
        patience *= max(1, PATIENCE / 60)
        end = time.monotonic() + patience
        while True:
            value = condition() if callable(condition) else self.js("return " + condition)
            if value:
                return value
            if time.monotonic() > end:
                self.shot("failed")
                print("FAILED: waited %d s in vain for %s\n%s\n%s" % (patience, what, self.js("return location.hash"), self.text()[:1500]))
                print(self.misdeeds())
                sys.exit(1)
            time.sleep(0.05)

    def shot(self, name):
        """A picture, where PROCFLEET_SHOTS says; for people, no test reads it."""
        directory = os.environ.get("PROCFLEET_SHOTS")
        if directory:
            self.driver.save_screenshot(os.path.join(directory, name + ".png"))

    def collect(self):
        """Takes over what the browser noted since the last time."""
        if not self.logs:
            return
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.urls.append(message["params"]["request"]["url"])
        self.errors += ["%(level)s %(message)s" % e for e in self.driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]

    def misdeeds(self, allow=()):
        """Violations and errors so far, but for console lines with one of `allow` in them."""
        self.collect()
        bad = list(self.js("return window.testViolations || []"))
        bad += [e for e in self.errors if not any(a in e for a in allow)]
        self.errors = []
        return bad

    def strangers(self, origin):
        """Addresses asked for that are not of this origin."""
        self.collect()
        return [u for u in self.urls if not u.startswith(origin + "/") and not u.startswith(("data:", "blob:" + origin, "chrome:", "about:"))]

    def unnamed(self):
        """Controls without a name, from the accessibility tree."""
        roles = {"button", "link", "textbox", "combobox", "checkbox", "searchbox", "slider", "listbox", "tab", "menuitem", "spinbutton",
                 "switch", "radio", "application", "grid", "table", "treegrid"}
        bad = []
        for n in self.cdp("Accessibility.getFullAXTree")["nodes"]:
            role = n.get("role", {}).get("value")
            if not n.get("ignored") and role in roles and not n.get("name", {}).get("value", "").strip():
                bad.append("%s %s" % (role, n.get("properties", [])[:2]))
        return bad

    def low_contrast(self):
        return self.js(CONTRAST)

    def beyond_tab(self, most=400):
        """Controls that Tab does not reach."""
        from selenium.webdriver.common.keys import Keys
        stops = self.js(STOPS)
        self.js("document.activeElement?.blur(); window.getSelection().removeAllRanges(); document.body.tabIndex = -1; document.body.focus();")
        seen = set()
        for _ in range(min(most, len(stops) + 10)):
            self.keys(Keys.TAB)
            seen.add(self.js(SAME + "return document.activeElement ? same(document.activeElement) : ''"))
            if seen.issuperset(stops):
                break
        self.js("document.body.removeAttribute('tabindex')")
        return [s for s in stops if s not in seen]
