/** What is known of one server: its session. */

import type { Claim } from "./claim.ts";
import type { Fault } from "./fault.ts";

/** Changed by `State` alone. */
export class SessionState {
  /** How errors name the server. */
  readonly address: string;
  /** 0: there is none. */
  session = 0;
  /** What the session renews, or will. */
  readonly grants = new Set<Claim>();
  /** The number of the last event that was applied. */
  seen = 0;
  /** Until when POLLs make grants sure; each reaches less far than those before it. */
  sures: { readonly sent: number; readonly till: number }[] = [];
  /** No grant's time ends before. */
  soonest = Infinity;
  /** A grant or place may belong to an earlier session. */
  outside = false;
  /** Since when every reply shows more grants than are known. */
  excess: number | undefined;
  /** When the failed tries of the last second began. */
  tries: number[] = [];
  /** Of the last try. */
  fault: Fault | undefined;
  /** A release was refused. */
  isLeaving = false;
  /** Sessions that were left, and when. */
  readonly left = new Map<number, number>();

  constructor(address: string) {
    this.address = address;
  }

  /** Those that `close` leaves to be closed. */
  get sessions(): number[] {
    return this.session ? [...this.left.keys(), this.session] : [...this.left.keys()];
  }
}
