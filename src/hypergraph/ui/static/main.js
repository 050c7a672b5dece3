// @ts-check
/** The page: the view that the address names. */
import { render } from "preact";
import { useEffect } from "preact/hooks";
import "@preact/signals";
import { enter, isServed } from "hg/api.js";
import { html } from "hg/html.js";
import { plain } from "hg/format.js";
import { listenForHelp } from "hg/keys.js";
import { followChanges } from "hg/live.js";
import { follow } from "hg/opened.js";
import { listen, route } from "hg/route.js";
import { registerAction, registerListAction, registerOverEverything, registerView, viewOf } from "hg/views.js";
import { ListActions, WorkflowActions } from "hg/actions.js";
import { BottleneckPage, StatsPage } from "hg/bottleneck.js";
import { ClusterPage } from "hg/cluster.js";
import { ComparePage } from "hg/compare.js";
import { Contents } from "hg/contents.js";
import { DialogPlace } from "hg/dialogs.js";
import { ErrorsPage } from "hg/errors.js";
import { LineagePage } from "hg/lineage.js";
import { List } from "hg/list.js";
import { ReplayPage } from "hg/replay.js";
import { WorkflowPage } from "hg/workflow.js";

registerView("list", isServed() ? List : Contents);
registerView("workflow", WorkflowPage);
registerView("bottleneck", BottleneckPage);
if (isServed()) {
  registerView("compare", ComparePage);
  registerView("lineage", LineagePage);
  registerView("stats", StatsPage);
  registerView("errors", ErrorsPage);
  registerView("replay", ReplayPage);
  registerView("cluster", ClusterPage);
}
registerAction(WorkflowActions);
registerListAction(ListActions);
registerOverEverything(DialogPlace);

function App() {
  const { view, params } = route.value;
  const name = params.wf ? `${plain(params.wf)} · hypergraph` : "hypergraph";
  useEffect(() => {
    document.title = name;
  }, [name]);
  return html`<${viewOf(view)} />`;
}

if (isServed()) enter();
listen();
follow();
followChanges();
listenForHelp();
const place = /** @type {HTMLElement} */ (document.getElementById("app"));
place.textContent = "";
render(html`<${App} />`, place);
