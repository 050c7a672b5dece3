// @ts-check
/** Queues, workers, schedules and submitted runs of a cluster, for those who operate it. */
import { useEffect, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { ago, cut, duration, plural } from "hg/format.js";
import { Frame } from "hg/frame.js";
import { Badge, Failure, Panel, useAnswer } from "hg/parts.js";
import { format, go, route } from "hg/route.js";

const AGAIN_MS = 2000; // the tables of a cluster change without a word
const STATUSES = ["waiting", "delayed", "running", "dead"];

/** Count up every now and then. */
function useTicks() {
  const [ticks, setTicks] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setTicks((count) => count + 1), AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  return ticks;
}

/** @param {number | null} seconds */
const since = (seconds) => (seconds === null ? "—" : duration(seconds * 1000));

/** @param {{title: string, heads: string[], items: any[] | undefined, empty: string, row: (item: any) => any}} props */
function Listing({ title, heads, items, empty, row }) {
  return html`<${Panel} title=${title} note=${items ? items.length.toLocaleString("en") : ""}>
    ${items && !items.length ? html`<p class="empty">${empty}</p>` : null}
    ${items?.length ? html`<div class="scroll" tabindex="0"><table class="plain-table" aria-label=${title}><thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead><tbody>${items.map(row)}</tbody></table></div>` : null}
  <//>`;
}

/** @param {any} queue */
function QueueRow(queue) {
  const limits = [queue.concurrency && `${queue.concurrency} at once`, queue.worker_concurrency && `${queue.worker_concurrency} per worker`, queue.limit && `${queue.limit[0]} in ${since(queue.limit[1])}`].filter(Boolean);
  const count = (/** @type {string} */ status) => html`<a href=${format({ view: "cluster", params: { queue: queue.name, status } })}>${queue[status].toLocaleString("en")}</a>`;
  return html`<tr key=${queue.name}><td class="mono">${cut(queue.name, 50)}</td><td><${Badge} status=${queue.paused ? "paused" : "active"} small /></td>
    <td>${count("waiting")}</td><td>${count("delayed")}</td><td>${count("running")}</td>
    <td>${since(queue.oldest)}</td><td class="note">${limits.join(", ") || "none"}</td></tr>`;
}

/** @param {any} worker */
function WorkerRow(worker) {
  return html`<tr key=${worker.executor_id}><td class="mono">${cut(worker.executor_id, 50)}</td><td><${Badge} status=${worker.alive ? "active" : "failed"} small />${worker.alive ? null : html` <span class="note">gone; its runs are taken over</span>`}</td>
    <td>${worker.running.toLocaleString("en")}</td><td>${since(worker.up)}</td><td>${since(worker.silent)}</td><td class="note">${cut(worker.host || "local", 40)}</td></tr>`;
}

/** @param {any} schedule */
function ScheduleRow(schedule) {
  return html`<tr key=${schedule.name}><td class="mono">${cut(schedule.name, 50)}</td><td class="mono">${cut(schedule.cron, 30)} ${schedule.timezone ?? ""}</td><td>${cut(schedule.graph, 40)}</td><td class="mono">${cut(schedule.queue ?? "", 30)}</td>
    <td>${schedule.paused ? html`<${Badge} status="paused" small />` : "on"}</td><td class="note">${schedule.last ? ago(schedule.last) : "never"}</td></tr>`;
}

/** @param {any} run */
function RunRow(run) {
  const when = run.due ?? run.submitted;
  return html`<tr key=${run.id}><td><a class="mono" href=${format({ view: "workflow", params: { wf: run.id.replace(/\/\d+$/, "") } })}>${cut(run.id, 60)}</a></td><td class="mono">${cut(run.queue, 30)}</td><td class="mono">${cut(run.worker, 30)}</td><td>${run.priority ?? ""}</td>
    <td class="note">${run.due ? `due ${new Date(when).toLocaleString()}` : ago(new Date(when).toISOString())}</td></tr>`;
}

/** The view. */
export function ClusterPage() {
  const { queue, status = "waiting" } = route.value.params;
  const ticks = useTicks();
  const queues = useAnswer("queues", {}, [ticks]);
  const workers = useAnswer("workers", {}, [ticks]);
  const schedules = useAnswer("schedules", {}, [ticks]);
  const runs = useAnswer("submitted", { status, queue }, [ticks]);
  const chip = (/** @type {string} */ one) => html`<button type="button" class="chip" aria-pressed=${one === status} onClick=${() => go({ view: "cluster", params: { ...route.peek().params, status: one } }, { replace: true })}>${one}</button>`;
  const error = queues.error ?? workers.error;
  const alive = workers.data?.items.filter((/** @type {any} */ worker) => worker.alive).length;
  const title = html`<h1>queues and workers</h1>${workers.data ? html`<span class="amount">${plural(alive, "worker")} alive</span>` : null}`;
  return html`<${Frame} title=${title} class="plain-page">
    ${error ? html`<${Failure} error=${error} />` : html`
      <${Listing} title="queues" heads=${["queue", "state", "waiting", "delayed", "running", "oldest waits", "limits"]} items=${queues.data?.items} empty="No queue yet." row=${QueueRow} />
      <${Listing} title="workers" heads=${["worker", "state", "runs", "up", "last heartbeat", "address"]} items=${workers.data?.items} empty="No worker is connected: hypergraph worker TARGET --executor-id ID" row=${WorkerRow} />
      <${Listing} title="schedules" heads=${["schedule", "when", "graph", "queue", "state", "last"]} items=${schedules.data?.items} empty="No schedule." row=${ScheduleRow} />
      <section class="panel filters" aria-label="Filters"><div class="chips" role="group" aria-label="Status of submitted runs">${STATUSES.map(chip)}${queue ? html`<a class="button" href=${format({ view: "cluster", params: { status } })}>queue ${cut(queue, 30)} ×</a>` : null}</div></section>
      <${Listing} title="submitted runs" heads=${["run", "queue", "worker", "priority", "when"]} items=${runs.data?.items} empty=${`No run is ${status}.`} row=${RunRow} />`}
  <//>`;
}
