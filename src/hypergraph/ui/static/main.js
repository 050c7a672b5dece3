// @ts-check
/** The page: the view that the address names. */
import { render } from "preact";
import { useEffect } from "preact/hooks";
import "@preact/signals";
import { html } from "hg/html.js";
import { plain } from "hg/format.js";
import { followChanges } from "hg/live.js";
import { follow } from "hg/opened.js";
import { listen, route } from "hg/route.js";
import { registerView, viewOf } from "hg/views.js";
import { List } from "hg/list.js";
import { WorkflowPage } from "hg/workflow.js";

registerView("list", List);
registerView("workflow", WorkflowPage);

function App() {
  const { view, params } = route.value;
  const name = params.wf ? `${plain(params.wf)} · hypergraph` : "hypergraph";
  useEffect(() => {
    document.title = name;
  }, [name]);
  return html`<${viewOf(view)} />`;
}

listen();
follow();
followChanges();
const place = /** @type {HTMLElement} */ (document.getElementById("app"));
place.textContent = "";
render(html`<${App} />`, place);
