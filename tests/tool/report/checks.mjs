// What the tests in a browser share: each prints "ok NAME" or "FAIL NAME: reason".
// MS_TEST_ONLY: a piece of the names of those that run.

const only = process.env.MS_TEST_ONLY;
const counts = { passed: 0, failed: 0 };

export function check(condition, what) {
  if (!condition) throw new Error(what);
}

export function same(got, want, what) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  check(a === b, what + ": " + a + " instead of " + b);
}

export async function test(name, run) {
  if (only && !name.includes(only)) return;
  try {
    await run();
    console.log("ok " + name);
    counts.passed++;
  } catch (error) {
    console.log("FAIL " + name + ": " + error.message);
    counts.failed++;
  }
}

/* Prints the sum and ends the process, with 1 if a test failed or none ran. */
export function finish() {
  console.log(counts.passed + " passed, " + counts.failed + " failed");
  process.exit(counts.failed > 0 || counts.passed === 0 ? 1 : 0);
}
