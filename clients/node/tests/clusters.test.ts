/** Clusters, with both libraries. Slots that move, nodes that hang, and Sentinels are in the common trial. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { createCluster } from "@redis/client";
import { Cluster } from "ioredis";
import type { Client } from "../src/index.ts";
import { slotOf } from "../src/core.ts";
import { ends, nodeOf, startCluster } from "./servers.ts";
import { newLocks } from "./support.ts";

const clients: Record<string, (port: number) => Client | Promise<Client>> = {
  ioredis(port) {
    const cluster = new Cluster([{ host: "127.0.0.1", port }], { lazyConnect: true });
    ends.push(() => cluster.disconnect());
    return cluster as unknown as Client;
  },
  async "node-redis"(port) {
    const cluster = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }] });
    await cluster.connect();
    ends.push(() => cluster.destroy());
    return cluster;
  },
};

for (const [library, clientOf] of Object.entries(clients)) {
  test(`locks on all nodes of a cluster: ${library}`, async () => {
    const nodes = await startCluster();
    const locks = newLocks(await clientOf(nodes[0]?.port ?? 0));
    await locks.all(["a", "b", "c", "d", "{a}x"], async (grants) => {
      for (const grant of grants) {
        const node = await nodeOf(nodes, grant.key);
        assert.equal((await node.info(grant.key))?.["token"], grant.token);
        await grant.check();
      }
    });
    await locks.close();
    for (const it of nodes) assert.deepEqual(await it.redis.call("LOCK.SESSION", "LIST"), []);
  });
}

test("slots", async () => {
  const [node] = await startCluster();
  for (const key of ["foo", "{user1000}.following", "foo{}{bar}", "foo{{bar}}zap", "foo{bar}{zap}", "", "ü"]) {
    assert.equal(slotOf(key), await node?.redis.call("CLUSTER", "KEYSLOT", key), key);
  }
});
