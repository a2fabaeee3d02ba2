/** Clusters and Sentinels, with both libraries. Slots that move and nodes that hang are in the common trial. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { createClient, createCluster } from "@redis/client";
import { Cluster, Redis } from "ioredis";
import { type Client, LockLost } from "../src/index.ts";
import { slotOf } from "../src/core.ts";
import { ends, eventually, nodeOf, startCluster, startSentinels } from "./servers.ts";
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
  test(`a cluster: ${library}`, async () => {
    const nodes = await startCluster();
    const locks = newLocks(await clientOf(nodes[0]?.port ?? 0), { lease: 2000 });
    const keys = ["a", "b", "c", "d", "{a}x"];
    await locks.all(keys, async (grants) => {
      for (const grant of grants) {
        const node = await nodeOf(nodes, grant.key);
        assert.equal((await node.info(grant.key))?.["token"], grant.token);
        await grant.check();
      }
    });
    const held = await locks.lock("a").acquire();
    const wait = locks.lock("a").acquire();
    const node = await nodeOf(nodes, "a");
    await node.waitForWaiters("a", 1);
    await held.release();
    const next = await wait;
    assert(next.token > held.token);
    await node.redis.del("a");
    await eventually(() => next.lost, "the loss");
    await assert.rejects(next.release(), (error) => error instanceof LockLost && error.reason === "deleted");
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

test("by Sentinels: ioredis, and node-redis with a function", async () => {
  const { primary, sentinel } = await startSentinels();
  const [[, master]] = (await sentinel.redis.call("SENTINEL", "MASTERS")) as [[string, string]];
  const sentinels = [{ host: "127.0.0.1", port: sentinel.port }];
  const redis = new Redis({ sentinels, name: master, lazyConnect: true });
  ends.push(() => redis.disconnect());
  const ofPrimary = async (): Promise<ReturnType<typeof createClient>> => {
    const [host = "", port] = (await sentinel.redis.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", master)) as string[];
    return createClient({ socket: { host, port: Number(port), reconnectStrategy: false } }) as ReturnType<typeof createClient>;
  };
  for (const client of [redis, ofPrimary]) {
    await newLocks(client as Client).lock("k").run(async (grant) => {
      assert.equal((await primary.info("k"))?.["token"], grant.token);
    });
  }
});
