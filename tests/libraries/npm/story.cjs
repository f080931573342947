// What test_node_clients.py judges: each story prints what it saw as one line of JSON. Arguments: the story, then ports.
"use strict";
const [story, ...ports] = process.argv.slice(2);
const host = "127.0.0.1";
const release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(condition) {
  while (!(await condition())) await sleep(20);
}

async function ioredis() {
  const Redis = require("ioredis");
  const [here, there] = ports.map((port) => new Redis({ host, port }));
  const seen = {};
  seen.taken = await here.set("io/lock", "ada", "PX", 100000, "NX");
  seen.refused = await there.set("io/lock", "bob", "PX", 100000, "NX");
  seen.left = await here.pttl("io/lock");
  here.defineCommand("release", { numberOfKeys: 1, lua: release });
  there.defineCommand("release", { numberOfKeys: 1, lua: release });
  seen.notMine = await there.release("io/lock", "bob");
  seen.mine = await here.release("io/lock", "ada");
  seen.multi = await here.multi().set("io/a", "1").incr("io/a").expire("io/a", 100).exec();
  await here.set("io/b", "x");
  seen.pipeline = await here.pipeline().get("io/a").get("io/b").exec();
  seen.afterwards = [await here.set("io/a", "7"), await here.incr("io/a")];
  seen.mset = [await here.mset("io/c", "1", "io/d", "2"), await here.mget("io/c", "io/d", "io/none")];
  await here.set("io/short", "x", "PX", 200);
  await until(async () => (await there.get("io/short")) === null && (await here.get("io/short")) === null);
  here.disconnect();
  there.disconnect();
  return seen;
}

async function noderedis() {
  const { createClient } = require("redis");
  const [here, there] = ports.map((port) => createClient({ socket: { host, port: Number(port) } }));
  await here.connect();
  await there.connect();
  const seen = {};
  seen.taken = await here.set("nr/lock", "ada", { NX: true, PX: 100000 });
  seen.refused = await there.set("nr/lock", "bob", { NX: true, PX: 100000 });
  seen.left = await here.pTTL("nr/lock");
  seen.notMine = await there.eval(release, { keys: ["nr/lock"], arguments: ["bob"] });
  seen.mine = await here.eval(release, { keys: ["nr/lock"], arguments: ["ada"] });
  seen.multi = await here.multi().set("nr/a", "1").incr("nr/a").expire("nr/a", 100).exec();
  seen.afterwards = [await here.set("nr/a", "7"), await here.incr("nr/a")];
  seen.getEx = await here.getEx("nr/a", { type: "EX", value: 100 });
  seen.getDel = [await here.getDel("nr/a"), await here.get("nr/a")];
  seen.mset = [await here.mSet({ "nr/c": "1", "nr/d": "2" }), await here.mGet(["nr/c", "nr/d", "nr/none"])];
  await here.set("nr/short", "x", { PX: 200 });
  await until(async () => (await there.get("nr/short")) === null && (await here.get("nr/short")) === null);
  here.destroy();
  there.destroy();
  return seen;
}

async function crowd(locks, take) {
  let inside = 0, most = 0, entered = 0;
  await Promise.all(locks.map(async (lock) => {
    for (let i = 0; i < 3; i++) {
      await take(lock, async () => {
        most = Math.max(most, ++inside);
        entered++;
        await sleep(5);
        inside--;
      });
    }
  }));
  return { most, entered };
}

async function redlock(name, resource, Redlock, Redis, unlock) {
  const clients = ports.map((port) => new Redis({ host, port }));
  const locks = clients.map((client) => new Redlock([client], { retryDelay: 20, retryJitter: 20, retryCount: 1000 }));
  const acquire = (lock, ms) => (lock.acquire ? lock.acquire(resource(name), ms) : lock.lock(name, ms));
  const seen = await crowd(locks, async (each, work) => {
    const held = await acquire(each, 60000);
    await work();
    await unlock(held);
  });
  const longer = await (await acquire(locks[0], 60000)).extend(600000);
  seen.left = await clients[0].pttl(name);
  await unlock(longer);
  seen.free = await clients[0].exists(name);
  const began = performance.now();
  await acquire(locks[0], 300);
  await unlock(await acquire(locks[1], 60000));
  seen.waited = performance.now() - began >= 295;
  clients.forEach((client) => client.disconnect());
  return seen;
}

const stories = {
  ioredis,
  noderedis,
  redlock4: () => redlock("rl4", (name) => name, require("redlock"), require("ioredis"), (held) => held.unlock()),
  redlock5: () => redlock("rl5", (name) => [name], require("redlock5").default, require("ioredis"), (held) => held.release()),
};

stories[story]().then((seen) => console.log(JSON.stringify(seen)), (error) => {
  console.error(error);
  process.exit(1);
});
