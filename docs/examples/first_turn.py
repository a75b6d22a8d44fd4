"""A first conversation: something is remembered, used in another conversation, and the platform is asked how it is.

    RECALL_KEY=rs_… python docs/examples/first_turn.py

It needs `pip install openai` and a running service (`make up`); RECALL_URL names another than http://127.0.0.1:8000/v1.
"""

import json
import os
import urllib.request

from openai import OpenAI

URL = os.environ.get("RECALL_URL", "http://127.0.0.1:8000/v1")
client = OpenAI(base_url=URL, api_key=os.environ["RECALL_KEY"])


def say(text: str) -> None:
    """One conversation of one turn, printed as it comes: the steps, the answer, what was recalled, how it ended."""
    print(f"\n> {text}")
    stream = client.chat.completions.create(
        model="code-reviewer", messages=[{"role": "user", "content": text}], stream=True, temperature=0, max_tokens=200
    )
    for chunk in stream:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
        more = chunk.model_extra or {}
        if "step" in more:
            show_step(more["step"])
        if "memory" in more:
            for entry in more["memory"]["shown"]:
                print(f"\n  [shown {entry['id']}: {entry['text']} (score {entry['score']})]", end="")
        if "stop" in more:
            print(f"\n  [stopped: {more['stop']['reason']}]")


def show_step(step: dict) -> None:
    if step["status"] == "started":
        return
    about = step["tool"] if step["kind"] == "tool" else f"{len(step['entries'])} entries"
    print(f"  [step {step['index']}: {step['kind']} {about}, {step['status']} in {step['elapsed_ms']} ms]")
    for line in step.get("result", "").splitlines():
        print(f"    {line}")


def get(path: str) -> dict:
    request = urllib.request.Request(URL + path, headers={"Authorization": f"Bearer {client.api_key}"})  # noqa: S310
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        return json.load(answer)


say("Remember that I prefer tabs in Go code.")
say("Please review this Go function: func add(a int, b int) int { return a + b }")
say("Is the platform healthy right now?")

print("\nusage:", json.dumps(get("/usage")["tokens"]))
print("generations, which hold no word of what was said:")
for record in get("/generations")["data"]:
    print(" ", json.dumps(record))
