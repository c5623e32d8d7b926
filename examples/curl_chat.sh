#!/usr/bin/env bash
# Ask a running server for text and speech, print the text and save the audio.
#
#   omni-verify serve &                     # in another terminal
#   examples/curl_chat.sh                   # text and audio -> answer.wav
#   examples/curl_chat.sh '["text"]'        # text only
#
# The request does not set "stream", so one complete response comes back, although the stages of the
# server hand their data on in chunks all the time (article section 1.3).
set -euo pipefail

MODALITIES=${1:-'["text","audio"]'}
URL=${OMNI_URL:-http://127.0.0.1:8091}
OUT=${OMNI_OUT:-answer.wav}

request=$(cat <<JSON
{
  "model": "qwen3_omni_moe",
  "modalities": ${MODALITIES},
  "messages": [
    {"role": "system", "content": "You are a helpful assistant that answers in text and speech."},
    {"role": "user", "content": "Explain the system architecture for a scalable audio generation pipeline. Answer in 15 words."}
  ],
  "sampling_params_list": [
    {"temperature": 0.0, "max_tokens": 2048, "seed": 42},
    {"temperature": 0.9, "top_k": 50, "max_tokens": 4096, "seed": 42, "stop_token_ids": [2150]},
    {"temperature": 0.0, "max_tokens": 65536, "seed": 42}
  ]
}
JSON
)

response=$(curl --silent --show-error --fail-with-body "${URL}/v1/chat/completions" \
  --header 'Content-Type: application/json' --data "${request}")

# Python instead of jq: it is there wherever the server runs.
OUT="${OUT}" python3 -c '
import base64, json, os, sys
message = json.load(sys.stdin)["choices"][0]["message"]
print(message["content"])
audio = message.get("audio")
if audio:
    with open(os.environ["OUT"], "wb") as file:
        file.write(base64.b64decode(audio["data"]))
    print("audio saved to", os.environ["OUT"], file=sys.stderr)
' <<<"${response}"
