"""Writes tools/prices_table.h, the prices in the tool, from LiteLLM's price list.

    python3 tools/prices.py DATE LIST...  >tools/prices_table.h

LIST is model_prices_and_context_window.json, or a wheel of the Python package litellm,
which has that file (`pip download --no-deps litellm`). DATE is the day of the first list.
A later list adds models that the lists before it lack: retired models stand only in older
ones. The table has text models of the providers below, under the names that transcripts
have; prices are dollars for a million tokens.
"""

import json
import re
import sys
import zipfile

# litellm_provider -> what stands before its models' names in the list
PROVIDERS = {
    "anthropic": "", "openai": "", "vertex_ai-language-models": "", "gemini": "gemini/",
    "xai": "xai/", "deepseek": "deepseek/", "mistral": "mistral/", "moonshot": "moonshot/",
    "zai": "zai/", "minimax": "minimax/", "dashscope": "dashscope/",
}
RETIRED = ("anthropic", "openai")  # those of which older lists are read
NOT_TEXT = re.compile(r"^ft:|audio|realtime|image|transcribe|tts|search|embed|moderation|live"
                      r"|vision|container")
# Of a million tokens written for an hour, as a multiple of those written for five minutes,
# where a list has no price of its own: what Anthropic takes for all its models.
HOUR = 1.6


def read(path):
    if path.endswith(".whl"):
        with zipfile.ZipFile(path) as wheel:
            name = next(n for n in wheel.namelist() if re.match(
                r"litellm/model_prices_and_context_window\w*\.json$", n))
            return json.loads(wheel.read(name))
    with open(path) as file:
        return json.load(file)


def rates(entry, tier, base):
    """Returns five prices: input, output, read from a cache, written for five minutes, for
    an hour. base: those without the tier, for what the tier does not change."""
    def price(key):
        value = entry.get(key + tier)
        return round(float(value) * 1e6, 9) if value is not None else None
    got = [price("input_cost_per_token"), price("output_cost_per_token"),
           price("cache_read_input_token_cost"), price("cache_creation_input_token_cost"),
           price("cache_creation_input_token_cost_above_1hr")]
    if base is not None:  # what has no price of its own costs what other input does
        return [g if g is not None else got[0] if i > 1 and base[i] == base[0] else base[i]
                for i, g in enumerate(got)]
    got[1] = got[1] or 0.0
    got[2] = got[0] if got[2] is None else got[2]
    hour = got[4] is None and got[3] is not None
    got[3] = got[0] if got[3] is None else got[3]
    got[4] = got[3] * HOUR if hour else got[3] if got[4] is None else got[4]
    return got


def row(name, entry):
    base = rates(entry, "", None)
    tiers = sorted(int(m.group(1)) for m in (
        re.match(r"input_cost_per_token_above_(\d+)k_tokens$", key) for key in entry) if m)
    above = tiers[0] * 1000 if tiers else 0
    more = rates(entry, "_above_%dk_tokens" % tiers[0], base) if tiers else [0] * 5

    def text(values):
        return "{%s}" % ", ".join("%.9g" % v for v in values)
    line = '    {"%s", {%s, %d, %s}},' % (name, text(base), above, text(more))
    return line if len(line) <= 90 else '    {"%s",\n     {%s, %d, %s}},' % (
        name, text(base), above, text(more))


models = {}
for path in sys.argv[2:]:
    older = len(models) > 0
    found = {}
    for full, entry in read(path).items():
        provider = entry.get("litellm_provider")
        prefix = PROVIDERS.get(provider)
        if prefix is None or (older and provider not in RETIRED):
            continue
        if entry.get("input_cost_per_token") is None:
            continue
        if entry.get("mode") not in ("chat", "responses") or NOT_TEXT.search(full):
            continue
        name = full[len(prefix):] if full.startswith(prefix) else full
        if "/" in name or float(entry["input_cost_per_token"]) == 0:
            continue
        found.setdefault(name, entry)
    for name, entry in found.items():
        models.setdefault(name, entry)
# The tool finds a dated name by the one without its date.
DATED = re.compile(r"-(\d{8}|\d{4}-\d\d-\d\d)$")
rows = {name: row("", entry) for name, entry in models.items()}
for name in list(rows):
    if DATED.search(name) and rows.get(DATED.sub("", name)) == rows[name]:
        del rows[name]
print("/* Made by tools/prices.py from LiteLLM's price list. */")
print('#define PRICES_DATE "%s"' % sys.argv[1])
print("static const price_row price_table[] = {")
for name in sorted(rows):
    print(row(name, models[name]))
print("};")
