// What must hold for whatever the page shows. Each check returns what is wrong, in words.
({
  /** Nothing that was stored has become an element, an attribute that acts, or an invisible character. */
  injected() {
    const wrong = [];
    const foreign = new Set(["img", "iframe", "object", "embed", "base", "math", "audio", "video", "template", "link", "meta", "style"]);
    const unseen = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/u;
    if (window.harmed !== undefined) wrong.push("a script out of the store ran");
    if (document.scripts.length !== 2) wrong.push(`${document.scripts.length} scripts`);
    for (const element of document.body.querySelectorAll("*")) {
      if (foreign.has(element.localName)) wrong.push(`<${element.localName}>`);
      for (const { name, value } of element.attributes) {
        if (name.startsWith("on") || name === "srcdoc") wrong.push(`${name}=${value}`);
        if (/^(href|src|action|xlink:href)$/.test(name) && !/^(#|\/static\/|\/api\/)/.test(value)) wrong.push(`${name}=${value}`);
        if (/^(title|aria-label|placeholder)$/.test(name) && unseen.test(value)) wrong.push(`${name} holds ${escape(value)}`);
      }
    }
    const seen = `${document.title} ${document.body.textContent}`;
    if (unseen.test(seen)) wrong.push(`text holds ${escape(unseen.exec(seen)[0])}`);
    return wrong;
  },

  /** Whoever hears the page, or uses only keys, finds names, roles and order. */
  unlabelled() {
    const wrong = [];
    const visible = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility !== "hidden";
    const told = (element) => `<${element.localName} class="${element.getAttribute("class") ?? ""}"> ${(element.textContent ?? "").trim().slice(0, 40)}`;
    const nameOf = (element) => {
      const by = element.getAttribute("aria-labelledby");
      const labels = [...(element.labels ?? [])].map((label) => label.textContent);
      const texts = [element.getAttribute("aria-label"), by && document.getElementById(by)?.textContent, ...labels, element.getAttribute("title")];
      if (!/^(input|select|textarea)$/.test(element.localName)) texts.push(element.textContent);
      return texts.filter(Boolean).join("").trim();
    };
    const named = "a[href], button, input, select, textarea, summary, section, nav, dialog, table, [tabindex='0'], "
      + ["button", "slider", "tab", "treeitem", "row", "menuitem", "img", "tree", "treegrid", "tablist", "menu", "group"].map((role) => `[role=${role}]`).join(", ");
    for (const element of document.querySelectorAll(named)) {
      if (visible(element) && !element.closest("[aria-hidden=true]") && element.localName !== "pre" && element.role !== "presentation" && !nameOf(element)
        && !(element.role === "group" && element.closest("[role=treeitem]"))) wrong.push(`no name: ${told(element)}`);
    }
    const homes = { treeitem: "[role=tree]", gridcell: "[role=row]", tab: "[role=tablist]", menuitem: "[role=menu]" };
    for (const [role, home] of Object.entries(homes)) {
      for (const element of document.querySelectorAll(`[role=${role}]`)) if (!element.closest(home)) wrong.push(`${role} outside of ${home}: ${told(element)}`);
    }
    for (const element of document.querySelectorAll("[role=row]")) if (!element.closest("[role=treegrid], [role=grid], table")) wrong.push(`row outside of a grid: ${told(element)}`);
    for (const name of ["aria-controls", "aria-labelledby", "aria-activedescendant"]) {
      for (const element of document.querySelectorAll(`[${name}]`)) if (!document.getElementById(element.getAttribute(name))) wrong.push(`${name} leads nowhere: ${told(element)}`);
    }
    const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
    for (const id of new Set(ids.filter((one, place) => ids.indexOf(one) !== place))) wrong.push(`two elements are ${id}`);
    for (const one of ["main", "header.top", "h1"]) if (document.querySelectorAll(one).length !== 1) wrong.push(`${document.querySelectorAll(one).length} of ${one}`);
    for (const element of document.querySelectorAll("*")) if (element.tabIndex > 0) wrong.push(`order of its own: ${told(element)}`);
    for (const element of document.querySelectorAll("*")) {
      const style = getComputedStyle(element);
      const scrolls = /auto|scroll/.test(style.overflowY) && element.scrollHeight > element.clientHeight + 1 && element.clientHeight > 0;
      if (scrolls && element.tabIndex < 0 && !element.querySelector("a[href], button, input, [tabindex='0']") && !element.closest("dialog")) wrong.push(`scrolls, but not by keys: ${told(element)}`);
    }
    if (!document.documentElement.lang) wrong.push("the page has no language");
    return wrong;
  },

  /** Texts stand out from what is behind them (WCAG AA). */
  faint() {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const known = new Map();
    const rgba = (colour) => {
      if (!known.has(colour)) {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        known.set(colour, [r, g, b, a / 255]);
      }
      return known.get(colour);
    };
    const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
    const behind = (element) => {
      const layers = [];
      for (let here = element; here; here = here.parentElement) {
        const shape = here instanceof SVGGElement ? here.querySelector(":scope > rect:last-of-type, :scope > path.shape") : null;
        layers.push(rgba(shape && shape !== element ? getComputedStyle(shape).fill : getComputedStyle(here).backgroundColor));
      }
      return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
    };
    const light = ([r, g, b]) => {
      const [x, y, z] = [r, g, b].map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const wrong = new Map();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      const text = node.data.trim();
      if (!text || !element.getClientRects().length || element.closest("title, noscript, script, :disabled, [aria-disabled=true], .pale")) continue;
      const style = getComputedStyle(element);
      const svg = element instanceof SVGElement;
      let strength = 1;
      for (let here = element; here; here = here.parentElement) strength *= Number(getComputedStyle(here).opacity);
      const below = behind(element);
      const ink = rgba(svg ? style.fill : style.color);
      const above = over([...ink.slice(0, 3), ink[3] * strength], below);
      const [high, low] = [light(above), light(below)].sort((a, b) => b - a);
      const ratio = (high + 0.05) / (low + 0.05);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      if (ratio < (large ? 3 : 4.5)) wrong.set(`${element.localName}.${element.getAttribute("class") ?? element.parentElement.className}`, `${ratio.toFixed(2)} ${text.slice(0, 30)}`);
    }
    return [...wrong].map((one) => one.join(": "));
  },

  /** Nothing sticks out of the window, and no text of a button or a heading is cut. */
  overflowing() {
    const wrong = [];
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) wrong.push(`the page is ${root.scrollWidth} wide`);
    for (const element of document.querySelectorAll("button, h1, h2, th, .badge")) {
      if (element.getClientRects().length && element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== "inline") wrong.push(`cut: ${element.textContent}`);
      const { left, right } = element.getBoundingClientRect();
      if (right > root.clientWidth + 1 || left < -1) if (!element.closest(".scroll, svg")) wrong.push(`out of the window: ${element.textContent}`);
    }
    return wrong;
  },
})
