/** The loop that polls the session of a server. It alone uses the session's connection, and runs no code of the user. */

import { setTimeout as pause } from "node:timers/promises";
import type { Core } from "./core.ts";
import { guard } from "./options.ts";
import type { Server } from "./server.ts";
import { Fault } from "./state/fault.ts";
import { now, pauseAfter } from "./time.ts";

/** Starts the loop, if it does not run, or ends its pause. */
export function run(core: Core, server: Server): void {
  server.rest.wake();
  if (server.loop || core.state.isClosed) return;
  void server.calls; // both connections open at the same time
  server.loop = loop(core, server);
}

async function loop(core: Core, server: Server): Promise<void> {
  let wasUnknown = false;
  for (let tries = 0; !core.state.isClosed;) {
    const began = now();
    const fault = await round(core, server);
    const isUnknown = fault?.word === "NOSESSION";
    if (isUnknown) {
      server.session = 0;
    } else if (fault) {
      const { state } = core;
      server.hangUp();
      state.failed(server, began, fault);
      if (state.isClosed || state.isIdle(server)) break; // until it is needed
      if (state.isCluster) void core.relocate(server);
    }
    observe(core, server, isUnknown ? undefined : fault);
    tries = fault && !(isUnknown && !wasUnknown) ? tries + 1 : 0;
    wasUnknown = isUnknown || (wasUnknown && fault !== undefined);
    if (tries === 0 || core.state.isClosed) continue;
    const rest = Math.min(pauseAfter(tries), server.isUnsure ? core.settings.replyTimeout / 10 : Infinity);
    const least = rest > 0 ? pause(Math.min(rest, 50)) : undefined; // a call that needs a session ends the rest
    await Promise.all([least, server.rest.sleep(rest)]);
  }
  observe(core, server, undefined);
  server.hangUp();
  server.loop = undefined;
}

function observe({ settings: { observer } }: Core, server: Server, fault: Fault | undefined): void {
  if (server.isDown === (fault !== undefined)) return;
  server.isDown = fault !== undefined;
  const error = fault && (fault.cause ?? new Error(fault.text));
  queueMicrotask(() => guard(() => observer?.connection?.(server.address, error)));
}

/** Opens a session if there is none, sends what is due, and polls once. */
async function round(core: Core, server: Server): Promise<Fault | undefined> {
  const { replyTimeout } = core.settings;
  core.state.leaveSession(server);
  if (!server.session) {
    const fault = await open(core, server);
    if (fault || core.state.isClosed) return fault;
  }
  const { session } = server;
  const due = core.state.due(server);
  if (due.length > 0) {
    const end = now() + replyTimeout * (1 + Math.floor(due.length / 500)); // so that each reply has its time
    const replies = await Promise.all(due.map(({ words }) => server.poller.call(end, words)));
    const { state } = core;
    due.forEach(({ apply, release }, i) => {
      const reply = replies[i];
      apply(reply);
      if (release && state.isCluster && reply instanceof Fault && reply.redirects) void core.finish(release);
    });
    const broken = replies.find((it): it is Fault => it instanceof Fault && it.word === "");
    if (broken || server.session !== session) return broken;
  }
  const line = server.poller;
  line.isShared = true;
  let sent = 0;
  const polled = await new Promise((resolve) => {
    process.nextTick(() => { // callers that were woken have sent their calls: the POLL goes along with them
      line.isShared = false;
      const { state } = core;
      const block = server.isDown || line.isBusy ? 0 : state.block(server); // calls in the pipeline often bring the next event
      sent = state.at;
      resolve(line.call(sent + replyTimeout + block, ["LOCK.SESSION", "POLL", session, ...(block ? ["BLOCK", block] : [])]));
    });
  });
  if (polled instanceof Fault) return polled;
  if (server.session === session) core.state.polled(server, sent, polled);
  return undefined;
}

async function open(core: Core, server: Server): Promise<Fault | undefined> {
  const { replyTimeout, silence, service } = core.settings;
  const words = ["LOCK.SESSION", "OPEN", "TIMEOUT", Math.ceil(silence), "NAME", service.slice(0, 80)];
  const session = await server.poller.call(now() + replyTimeout, words);
  if (typeof session !== "number") return session instanceof Fault ? session : Fault.none("OPEN returned no session id", false);
  const { state } = core;
  state.opened(server, session);
  if (state.isClosed) await server.poller.call(state.at + replyTimeout, ["LOCK.SESSION", "CLOSE", session]);
  return undefined;
}
