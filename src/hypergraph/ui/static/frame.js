// @ts-check
/** What every view stands in: the bar on top, with the way home, and the main part. */
import { html } from "hg/html.js";
import { locked } from "hg/api.js";
import { CopyNote } from "hg/copy.js";
import { about, live } from "hg/store.js";
import { isDark, toggleTheme } from "hg/theme.js";
import { overEverything } from "hg/views.js";

function Corner() {
  const dark = isDark();
  const label = dark ? "Light theme" : "Dark theme";
  const hint = live.value ? "Live: changes appear as they happen" : "Not connected: this page may be out of date";
  const state = about.value?.offline ? html`<${CopyNote} />` : html`<span class="live ${live.value ? "on" : ""}" role="status" title=${hint}>${live.value ? "live" : "offline"}</span>`;
  return html`${state}
    <button class="icon" type="button" title=${label} aria-label=${label} onClick=${toggleTheme}>${dark ? "☀" : "☾"}</button>`;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** @param {{title: any, actions?: any, class?: string, children?: any}} props */
export function Frame({ title, actions, class: kind = "", children }) {
  return html`<div class="app">
    <a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <header class="top">
      <nav aria-label="Home"><a class="brand" href="#/" title="All workflows" aria-label="All workflows">⬡</a></nav>
      <div class="title">${title}</div>
      <div class="actions">${actions}<${Corner} /></div>
    </header>
    ${locked.value ? html`<p class="locked" role="alert">This page has no access to the server: it was started anew, or another program uses its port. Open the address that <span class="mono">hypergraph ui</span> printed; this page continues then.</p>` : null}
    <main id="main" class=${kind} tabindex="-1">${children}</main>
    ${overEverything.map((Over) => html`<${Over} />`)}
  </div>`;
}
