#!/usr/bin/env python3
"""Writes signatures.json: valid and invalid Stripe-Signature vectors, made without any of our Go.

    python3 signatures.py > signatures.json

The macs are Python's own; one of them is compared with openssl's on the way. `now` is the clock of
the receiver. `want` is ok, no_signature, bad_signature, skew or not_event.
"""
import base64
import hashlib
import hmac
import json
import subprocess

NOW = 1_700_000_000
OLD, NEW, OTHER = "whsec_old_1f2e", "whsec_new_9a8b", "whsec_somebody_else"
BODY = b'{"id":"evt_1","object":"event","type":"checkout.session.completed","created":1700000000,"livemode":false,' \
       b'"api_version":"2024-06-20","data":{"object":{"id":"cs_1","object":"checkout.session"}}}'


def mac(secret, t=NOW, body=BODY):
    return hmac.new(secret.encode(), str(t).encode() + b"." + body, hashlib.sha256).hexdigest()


def openssl(secret, t, body):
    out = subprocess.run(["openssl", "dgst", "-sha256", "-hmac", secret], input=str(t).encode() + b"." + body,
                         capture_output=True, check=True).stdout.decode()
    return out.rsplit(" ", 1)[1].strip()


assert openssl(OLD, NOW, BODY) == mac(OLD)

old, new, other = mac(OLD), mac(NEW), mac(OTHER)
T = f"t={NOW}"
vectors = []


def vector(name, want, headers, secrets=(OLD,), now=NOW, body=BODY):
    headers = [headers] if isinstance(headers, str) else headers
    v = {"name": name, "want": want, "now": now, "secrets": list(secrets), "headers": headers}
    try:
        v["body"] = body.decode()
    except UnicodeDecodeError:
        v["body_base64"] = base64.b64encode(body).decode()
    vectors.append(v)


# One secret, one signature.
vector("plain", "ok", f"{T},v1={old}")
vector("v0 of test events beside it", "ok", f"{T},v1={old},v0={other}")
vector("unknown scheme beside it", "ok", f"{T},v2={other},v1={old}")
vector("scheme before the time", "ok", f"v1={old},{T}")
vector("upper-case hex", "ok", f"{T},v1={old.upper()}")
vector("blank after the comma", "ok", f"{T}, v1={old}")
vector("trailing comma", "ok", f"{T},v1={old},")
vector("leading zeros are signed as sent", "ok", f"t=0{NOW},v1={mac(OLD, '0' + str(NOW))}")
vector("leading zeros not signed", "bad_signature", f"t=0{NOW},v1={old}")

# Rotation: the provider signs with every active secret, the receiver holds one or both.
for order, header in (("old first", f"{T},v1={old},v1={new}"), ("new first", f"{T},v1={new},v1={old}")):
    vector(f"rotation, {order}, holds old", "ok", header, [OLD])
    vector(f"rotation, {order}, holds new", "ok", header, [NEW])
    vector(f"rotation, {order}, holds both", "ok", header, [OLD, NEW])
    vector(f"rotation, {order}, holds both, reversed", "ok", header, [NEW, OLD])
    vector(f"rotation, {order}, holds another", "bad_signature", header, [OTHER])
vector("rotation over, holds both", "ok", f"{T},v1={new}", [OLD, NEW])
vector("three secrets, the last fits", "ok", f"{T},v1={new}", [OTHER, OLD, NEW])

# Junk beside a good signature is skipped; junk alone is no signature.
for name, junk in (("odd hex", "abc"), ("not hex", "zz" * 32), ("empty", ""), ("too short", "ab" * 31),
                   ("too long", "ab" * 33), ("wrong mac", other), ("multi-byte", "é" * 32), ("with =", old + "=")):
    vector(f"junk before: {name}", "ok", f"{T},v1={junk},v1={old}")
    vector(f"junk after: {name}", "ok", f"{T},v1={old},v1={junk}")
    vector(f"junk alone: {name}", "bad_signature" if name == "wrong mac" else "no_signature", f"{T},v1={junk}")
vector("parts without =", "ok", f"hello,{T},v1,v1={old}")

# Nothing of the live scheme.
vector("no header", "no_signature", [])
vector("empty header", "no_signature", "")
vector("v0 alone, with a genuine mac", "no_signature", f"{T},v0={old}")
vector("time alone", "no_signature", T)
vector("upper-case scheme", "no_signature", f"{T},V1={old}")

# The time.
for name, t in (("missing", ""), ("negative", f"t=-{NOW},"), ("of 20 digits", "t=12345678901234567890,"), ("with +", f"t=+{NOW},"),
                ("empty", "t=,"), ("not a number", "t=x,"), ("hexadecimal", "t=0x6553f100,"), ("with _", "t=1_700_000_000,"),
                ("a fraction", f"t={NOW}.0,"), ("arabic digits", "t=١٧٠٠٠٠٠٠٠٠,"), ("with a blank inside", f"t= {NOW},")):
    signed = t[2:-1] if t else NOW
    vector(f"time {name}", "bad_signature", f"{t}v1={mac(OLD, signed)}")
vector("time twice, both the same", "bad_signature", f"{T},{T},v1={old}")
vector("time twice, the second signed", "bad_signature", f"t=1,{T},v1={old}")
for name, d, want in (("-300", -300, "ok"), ("+300", 300, "ok"), ("-301", -301, "skew"), ("+301", 301, "skew"),
                      ("a year ago", -31_536_000, "skew"), ("in a year", 31_536_000, "skew")):
    vector(f"signed {name}", want, f"t={NOW + d},v1={mac(OLD, NOW + d)}")
vector("signed in the year 36812", "skew", f"t={2**40 - 1},v1={mac(OLD, 2**40 - 1)}")
vector("signed beyond any date", "bad_signature", f"t={2**40},v1={mac(OLD, 2**40)}")
vector("old and not genuine", "bad_signature", f"t={NOW - 301},v1={old}")

# Several lines, or one made of two: which time would count is anybody's guess.
vector("two header lines", "bad_signature", [f"{T},v1={old}", f"{T},v1={old}"])
vector("two header lines, the first empty", "no_signature", ["", f"{T},v1={old}"])
vector("two headers joined by a proxy", "bad_signature", f"{T},v1={old}, {T},v1={old}")

# How many.
vector("sixteen signatures, the last good", "ok", f"{T}" + f",v1={other}" * 15 + f",v1={old}")
vector("seventeen signatures, the first good", "bad_signature", f"{T},v1={old}" + f",v1={other}" * 16)

# Secrets.
vector("no secret", "bad_signature", f"{T},v1={old}", [])
vector("signed with the empty key, empty secret held", "bad_signature", f"{T},v1={mac('')}", [""])
vector("signed with the empty key, empty secret among others", "bad_signature", f"{T},v1={mac('')}", [OLD, "", NEW])
vector("a good secret beside an empty one", "ok", f"{T},v1={old}", ["", OLD])
vector("secret without its prefix", "bad_signature", f"{T},v1={mac(OLD.removeprefix('whsec_'))}")
vector("secret with a newline", "bad_signature", f"{T},v1={mac(OLD)}", [OLD + "\n"])

# The body: every byte counts, and a genuine signature makes no event of anything.
vector("body one newline longer than signed", "bad_signature", f"{T},v1={old}", body=BODY + b"\n")
vector("body one byte shorter than signed", "bad_signature", f"{T},v1={old}", body=BODY[:-1])
vector("body with a byte order mark, not signed", "bad_signature", f"{T},v1={old}", body=b"\xef\xbb\xbf" + BODY)
for name, body, want in (("newlines signed", BODY + b"\n\n", "ok"), ("CRLF inside, signed", BODY.replace(b",", b",\r\n"), "ok"),
                         ("invalid UTF-8 and NUL escape in a string", BODY[:-1] + b',"x":"\xff\\u0000"}', "ok"),
                         ("byte order mark, signed", b"\xef\xbb\xbf" + BODY, "not_event"), ("empty", b"", "not_event"),
                         ("null", b"null", "not_event"), ("two values", BODY + b"{}", "not_event"), ("binary", b"\x00\xff\xfe", "not_event")):
    vector(f"body: {name}", want, f"{T},v1={mac(OLD, NOW, body)}", body=body)

print(json.dumps(vectors, indent=1, ensure_ascii=False))
