"""Keys that vendors mark with a prefix or a shape of their own: one row each."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.core.redact.judge import random_looking
from reprieve.core.redact.patterns import Span, compiled, gate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reprieve.core.redact.patterns import Gate

# A key may follow an escaped line end, an escaped quote or a percent escape, none of which is a word boundary.
_LEFT: Final = rb"(?:\b|_|\\[nrtbf]|%[0-9A-Fa-f]{2}|\\u00[0-9A-Fa-f]{2})"
_ALNUM: Final = rb"[A-Za-z0-9]"
_WORD: Final = rb"[A-Za-z0-9_]"
_DASHED: Final = rb"[A-Za-z0-9_-]"
_HEX: Final = rb"[0-9a-f]"
_BASE64: Final = rb"[A-Za-z0-9+/=_-]"
_WRAPS: Final = (b"\n", b"\r\n", b"\\\n", b"\\n", b"\\\\n")


@dataclass(frozen=True, slots=True)
class Vendor:
    """A prefix that gives a key away, what follows it, and how long a whole key is."""

    rule: str
    prefix: bytes
    body: bytes
    length: int = 0
    """Of a whole key; a shorter one at the end of a line goes on in the next."""
    free: bool = False
    """The prefix is so peculiar that it needs no word boundary before it."""
    mixed: bool = False
    """Only with a digit in it: without one it is a name in code."""
    hint: bytes = b""
    """What the gate looks for where the prefix could be almost anything."""
    unlike: bytes = b""
    """What stands shortly before something else of the same shape."""

    def spans(self, data: bytes) -> Iterator[Span]:
        """Every such key in the text."""
        left = b"" if self.free else _LEFT
        for match in compiled(left + b"(" + self.prefix + self.body + b")").finditer(data):
            start, end = match.start(1), match.end(1)
            if self.mixed and compiled(rb"[0-9]").search(data, start, end) is None:
                continue
            if self.unlike and compiled(self.unlike).search(data, max(0, start - 24), start) is not None:
                continue
            if end - start < self.length:
                end = _wrapped(data, end, self.length - (end - start))
            yield Span(start, end, self.rule)


def _wrapped(data: bytes, end: int, missing: int) -> int:
    """Where a key ends that a line end cut in two: `end` itself if it did not."""
    for wrap in _WRAPS:
        if data.startswith(wrap, end):
            after = end + len(wrap)
            rest = compiled(rb"[ \t>|]*[A-Za-z0-9_+/=-]+").match(data, after, after + missing + 40)
            if rest is None:
                continue
            more = data[after : rest.end()].strip(b" \t>|")
            if (len(more) >= missing or random_looking(more)) and any(48 <= byte <= 57 for byte in more):  # noqa: PLR2004 - a digit
                return rest.end()
    return end


def _rows() -> tuple[Vendor, ...]:
    alnum, word, dashed, lower_hex, base64 = _ALNUM, _WORD, _DASHED, _HEX, _BASE64
    # fmt: off
    return (
        # clouds
        Vendor("aws-key", rb"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{4}", rb"[A-Z0-9]{8,}", 20),
        Vendor("aws-key", rb"ABSK[A-Za-z0-9+/]{8}", rb"[A-Za-z0-9+/=]{40,}"),
        Vendor("google-key", rb"AIza[0-9A-Za-z_-]{4}", dashed + rb"{12,}", 39),
        Vendor("google-token", rb"ya29\.[0-9A-Za-z_-]{4}", rb"[0-9A-Za-z_.-]{10,}"),
        Vendor("google-token", rb"1//0[0-9A-Za-z_-]{4}", dashed + rb"{16,}"),
        Vendor("google-token", rb"4/0A[A-Za-z0-9_-]{4}", dashed + rb"{16,}"),
        Vendor("google-secret", rb"GOCSPX-", dashed + rb"{8,}", 35, free=True),
        Vendor("google-key", rb"GOOG[A-Z0-9]{4}", rb"[A-Z0-9]{12,}"),
        Vendor("azure-key", rb"[A-Za-z0-9+/]{30,}(?:\+ASt|AIoTC|ACDb|AzFu|AzSe|ACRA)",
               rb"[A-Za-z0-9+/=]{6,}", mixed=True, hint=rb"(?:\+ASt|AIoTC|ACDb|AzFu|AzSe|ACRA)[A-Za-z0-9+/=]{6}"),
        Vendor("azure-key", rb"[A-Za-z0-9_~.]{3}[78]Q~", rb"[A-Za-z0-9_~.-]{20,}", 40, hint=rb"[78]Q~[A-Za-z0-9_~.-]"),
        Vendor("azure-key", rb"[A-Za-z0-9+/]{86}", rb"==", mixed=True, hint=rb"[A-Za-z0-9+/]{6}==", unlike=rb"(?i)sha|digest|hash|integrity|checksum|sum|sig|etag"),
        Vendor("azure-token", rb"[A-Za-z0-9]{60,80}AZDO", alnum + rb"{4}", hint=rb"AZDO[0-9A-Za-z]{4}"),
        Vendor("digitalocean-key", rb"do[opr]_v1_", lower_hex + rb"{12,}", 71, free=True),
        Vendor("alibaba-key", rb"LTAI[A-Za-z0-9]{4}", alnum + rb"{8,}"),
        Vendor("tencent-key", rb"AKID[A-Za-z0-9]{4}", alnum + rb"{20,}"),
        Vendor("yandex-key", rb"AQVN[A-Za-z0-9_-]{4}", dashed + rb"{20,}"),
        Vendor("yandex-key", rb"y[0-3]_[A-Za-z0-9_-]{8}", dashed + rb"{30,}"),
        Vendor("scaleway-key", rb"SCW[A-Z0-9]{4}", rb"[A-Z0-9]{13}"),
        Vendor("linode-key", rb"lin_pat_", dashed + rb"{16,}", free=True),
        Vendor("fly-token", rb"(?:fo1_|fm[12][ar]?_|FlyV1 fm\d_)[A-Za-z0-9+/_-]{4}", base64 + rb"{16,}"),
        Vendor("cloudflare-key", rb"v1\.0-[0-9a-f]{8}", rb"[0-9a-f-]{30,}"),
        Vendor("cloudflare-key", rb"cf(?:k|ut|at)_[A-Za-z0-9]{4}", dashed + rb"{20,}"),
        Vendor("heroku-key", rb"HRKU-[A-Za-z0-9_-]{2}", dashed + rb"{20,}", free=True),
        Vendor("render-key", rb"rnd_[A-Za-z0-9]{4}", alnum + rb"{12,}"),
        Vendor("vercel-token", rb"vc[pkiar]_[A-Za-z0-9]{4}", alnum + rb"{16,}"),
        Vendor("netlify-token", rb"nf[pcoub]_[A-Za-z0-9]{4}", alnum + rb"{20,}"),
        # code hosting and packages
        Vendor("git-token", rb"gh[pousr]_[A-Za-z0-9]", alnum + rb"{9,}", 40, free=True),
        Vendor("git-token", rb"github_pat_", word + rb"{10,}", 93, free=True),
        Vendor("git-token", rb"v1\.[0-9a-f]{8}", lower_hex + rb"{32,}"),
        Vendor("gitlab-token", rb"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-", rb"[A-Za-z0-9_.=-]{10,}", 26, free=True),
        Vendor("gitlab-token", rb"GR1348941", dashed + rb"{12,}", 29),
        Vendor("bitbucket-token", rb"(?:ATBB|ATCTT3)[A-Za-z0-9]{4}", rb"[A-Za-z0-9_=-]{16,}"),
        Vendor("atlassian-token", rb"ATATT3?[A-Za-z0-9_-]{4}", rb"[A-Za-z0-9_=-]{16,}", 192, free=True),
        Vendor("atlassian-token", rb"ATOA[A-Za-z0-9_-]{4}", rb"[A-Za-z0-9_=-]{16,}"),
        Vendor("npm-token", rb"npm_[A-Za-z0-9]{2}", alnum + rb"{14,}", 40),
        Vendor("pypi-token", rb"pypi-(?:AgE|AgI)[A-Za-z0-9_-]", dashed + rb"{12,}", 80, free=True),
        Vendor("gem-key", rb"rubygems_[0-9a-f]{2}", lower_hex + rb"{12,}", 57, free=True),
        Vendor("nuget-key", rb"oy2[a-z0-9]{4}", rb"[a-z0-9]{39}"),
        Vendor("crates-token", rb"cio[A-Za-z0-9]{4}", alnum + rb"{28}"),
        Vendor("artifactory-key", rb"AKC[a-zA-Z0-9]{4}", alnum + rb"{12,}"),
        Vendor("artifactory-token", rb"cmVmdGtu[A-Za-z0-9]{4}", alnum + rb"{12,}", free=True),
        Vendor("docker-token", rb"dckr_(?:pat|oat)_", dashed + rb"{10,}", 36, free=True),
        Vendor("sonar-token", rb"sq[upa]_[0-9a-f]{4}", lower_hex + rb"{16,}", 44),
        Vendor("snyk-token", rb"snyk_(?:uat|sat)\.", rb"[A-Za-z0-9_.-]{16,}", free=True),
        Vendor("circleci-token", rb"CCIP(?:AT|RJ)_[A-Za-z0-9]{4}", rb"[A-Za-z0-9_]{16,}", free=True),
        Vendor("buildkite-token", rb"bk(?:ua|aj|ct)_[0-9a-zA-Z]{4}", alnum + rb"{12,}"),
        Vendor("sourcegraph-token", rb"sg[pd]_[a-zA-Z0-9_-]{4}", rb"[A-Za-z0-9_]{16,}"),
        Vendor("composer-token", rb"packagist_[ou][ru][ti]_", alnum + rb"{10,}", free=True),
        Vendor("clojars-token", rb"CLOJARS_[a-z0-9]{4}", rb"[a-z0-9]{20,}"),
        # infrastructure
        Vendor("vault-token", rb"hv[sbr]\.[A-Za-z0-9_-]{4}", dashed + rb"{10,}", 28),
        Vendor("vault-token", rb"s\.[A-Za-z0-9]{8}", alnum + rb"{16}\b", mixed=True, hint=rb"\bs\.[A-Za-z0-9]{24}\b"),
        Vendor("terraform-token", rb"[A-Za-z0-9]{0,20}\.?atlasv1\.", rb"[A-Za-z0-9_=-]{16,}", 70, free=True, hint=rb"atlasv1\."),
        Vendor("doppler-token", rb"dp\.(?:pt|st|ct|sa|scim|audit)\.", rb"[A-Za-z0-9_.-]{10,}", free=True),
        Vendor("pulumi-token", rb"pul-[0-9a-f]{4}", lower_hex + rb"{16,}", 44),
        Vendor("age-key", rb"(?i:AGE-SECRET-KEY-1)", alnum + rb"{20,}", 74, free=True),
        Vendor("onepassword-token", rb"ops_eyJ", base64 + rb"{20,}", free=True),
        Vendor("onepassword-key", rb"A3-[A-Z0-9]{6}-", rb"[A-Z0-9]{6,11}(?:-[A-Z0-9]{5,6}){3,4}"),
        Vendor("infisical-token", rb"st\.[0-9a-f]{8}", rb"[0-9a-f]{16}\.[0-9a-f.]{20,}"),
        Vendor("tailscale-key", rb"tskey-[a-z]+-", dashed + rb"{10,}", free=True),
        Vendor("prefect-token", rb"pn[ub]_[A-Za-z0-9]{4}", alnum + rb"{16,}"),
        Vendor("octopus-key", rb"API-[A-Z0-9]{6}", rb"[A-Z0-9]{20}"),
        Vendor("wireguard-key", rb"(?:PrivateKey|PresharedKey) = ", rb"[A-Za-z0-9+/]{40,}={0,2}"),
        # databases
        Vendor("databricks-token", rb"dapi[0-9a-f]{4}", rb"[0-9a-f]{8,}(?:-\d)?", 36),
        Vendor("databricks-token", rb"dose[0-9a-f]{4}", rb"[0-9a-f]{28}"),
        Vendor("planetscale-token", rb"pscale_(?:tkn|pw|oauth|otp)_", rb"[A-Za-z0-9_.=-]{10,}", free=True),
        Vendor("supabase-key", rb"sbp_[0-9a-z]{4}", rb"[0-9a-z_]{12,}", 44),
        Vendor("supabase-key", rb"sb_(?:secret|publishable)_", dashed + rb"{10,}"),
        Vendor("neon-key", rb"napi_[A-Za-z0-9]{4}", alnum + rb"{16,}"),
        Vendor("mongodb-key", rb"mdb_sa_(?:sk|id)_", dashed + rb"{10,}"),
        Vendor("elastic-key", rb"essu_[A-Za-z0-9]{4}", rb"[A-Za-z0-9=+/]{16,}"),
        Vendor("airtable-token", rb"pat[A-Za-z0-9]{14}\.", lower_hex + rb"{12,}", 82),
        Vendor("pinecone-key", rb"pcsk_[A-Za-z0-9]{4}", rb"[A-Za-z0-9_]{12,}", 75),
        # models
        Vendor("anthropic-key", rb"sk-ant-", rb"(?:[a-z]+\d+-)?[A-Za-z0-9_-]{6,}", 108, free=True),
        Vendor("openai-key", rb"sk-(?:proj|svcacct|admin|None|org|service)-", dashed + rb"{8,}", 120),
        Vendor("openrouter-key", rb"sk-or-", rb"[a-z0-9]*-?[A-Za-z0-9_-]{8,}", 73),
        Vendor("openai-key", rb"sk-[A-Za-z0-9]{4}", rb"[A-Za-z0-9_-]*\d[A-Za-z0-9_-]*", 51),
        Vendor("openai-key", rb"sess-[A-Za-z0-9]{4}", alnum + rb"{20,}"),
        Vendor("huggingface-token", rb"(?:hf|api_org)_[A-Za-z0-9]{4}", alnum + rb"{12,}", 37),
        Vendor("replicate-token", rb"r8_[A-Za-z0-9]{4}", alnum + rb"{26,}", 40),
        Vendor("groq-key", rb"gsk_[A-Za-z0-9]{4}", alnum + rb"{10,}", 56),
        Vendor("xai-key", rb"xai-[A-Za-z0-9]{4}", alnum + rb"{10,}", 84),
        Vendor("perplexity-key", rb"pplx-[A-Za-z0-9]{4}", alnum + rb"{10,}", 53),
        Vendor("together-key", rb"tgp_v1_", dashed + rb"{12,}", free=True),
        Vendor("fireworks-key", rb"fw_[A-Za-z0-9]{4}", alnum + rb"{16,}", mixed=True),
        Vendor("nvidia-key", rb"nvapi-[A-Za-z0-9_-]{4}", dashed + rb"{12,}", 70, free=True),
        Vendor("langsmith-key", rb"lsv2_(?:pt|sk)_", rb"[0-9a-f_]{10,}", 51, free=True),
        Vendor("langfuse-key", rb"(?:sk|pk)-lf-", rb"[0-9a-f-]{12,}", 42),
        Vendor("cerebras-key", rb"csk-[a-z0-9]{4}", rb"[a-z0-9]{16,}"),
        Vendor("tavily-key", rb"tvly-[A-Za-z0-9-]{4}", dashed + rb"{10,}", free=True),
        Vendor("voyage-key", rb"pa-[A-Za-z0-9_-]{8}", dashed + rb"{32,}", mixed=True),
        Vendor("jina-key", rb"jina_[A-Za-z0-9_-]{4}", dashed + rb"{20,}"),
        Vendor("firecrawl-key", rb"fc-[0-9a-f]{8}", lower_hex + rb"{24}"),
        Vendor("wandb-key", rb"wandb_v1_", dashed + rb"{12,}", free=True),
        Vendor("elevenlabs-key", rb"sk_[0-9a-f]{4}", lower_hex + rb"{44}"),
        # payment
        Vendor("stripe-key", rb"(?:sk|rk|pk)_(?:live|test|prod)_[A-Za-z0-9]", alnum + rb"{7,}", 32),
        Vendor("square-token", rb"(?:EAAA[A-Za-z0-9_-]{4}|sq0[a-z]{3}-)", dashed + rb"{12,}", 29),
        Vendor("facebook-token", rb"EAA[A-Za-z0-9]{6}", alnum + rb"{20,}", 90),
        Vendor("paypal-token", rb"access_token\$(?:production|sandbox)\$", rb"[0-9a-z]+\$[0-9a-f]{16,}", free=True),
        Vendor("plaid-token", rb"(?:access|public|link)-(?:sandbox|development|production)-", rb"[0-9a-f-]{20,}", free=True),
        Vendor("razorpay-key", rb"rzp_(?:live|test)_", alnum + rb"{10,}", free=True),
        Vendor("adyen-key", rb"AQE[a-z0-9][A-Za-z0-9+/]{8}", rb"[A-Za-z0-9+/=-]{40,}"),
        Vendor("flutterwave-key", rb"FLW(?:PUBK|SECK)(?:_TEST)?-", rb"[0-9a-zA-Z-]{10,}", free=True),
        Vendor("coinbase-key", rb"organizations/[0-9a-f-]{36}/apiKeys/", rb"[0-9a-f-]{36}"),
        Vendor("paddle-key", rb"pdl_(?:live|sdbx)_", rb"[A-Za-z0-9_]{16,}", free=True),
        Vendor("mollie-key", rb"live_[A-Za-z0-9]{4}", alnum + rb"{20,}\b", mixed=True),
        Vendor("lob-key", rb"(?:live|test)_(?:pub_)?[0-9a-f]{8}", lower_hex + rb"{22,}"),
        # mail, chat, telephony
        Vendor("slack-token", rb"xox[a-zA-Z](?:\.xox[a-z])?-", rb"[A-Za-z0-9-]{8,}", free=True),
        Vendor("slack-token", rb"xoxe[.-][A-Za-z0-9.-]{2}", rb"[A-Za-z0-9+/-]{8,}=*", free=True),
        Vendor("slack-token", rb"xapp-\d-", rb"[A-Za-z0-9-]{10,}", free=True),
        Vendor("slack-token", rb"xwfp-", rb"[A-Za-z0-9-]{16,}"),
        Vendor("hook-url", rb"(?:https?://(?:[a-z-]+\.)?)?hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/", rb"[A-Za-z0-9+/_-]{6,}", 66, free=True, hint=rb"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/"),
        Vendor("hook-url", rb"(?:https?://(?:[a-z-]+\.)?)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/", rb"\d{6,}/[A-Za-z0-9_-]{10,}", free=True, hint=rb"discord(?:app)?\.com/api/(?:v\d+/)?webhooks/"),
        Vendor("discord-token", rb"[MNO][A-Za-z0-9_-]{23,27}\.", rb"[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{26,}",
               hint=rb"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{26}"),
        Vendor("discord-token", rb"mfa\.[A-Za-z0-9_-]{8}", dashed + rb"{40,}"),
        Vendor("hook-url", rb"(?:https?://)?(?:[a-z0-9-]+\.webhook\.office\.com/webhookb2|outlook\.office(?:365)?\.com/webhook)/",
               rb"[A-Za-z0-9@/-]{20,}", free=True, hint=rb"(?:webhook\.office|outlook\.office(?:365)?)\.com/webhook"),
        Vendor("hook-url", rb"(?:https?://(?:[a-z-]+\.)?)?hooks\.zapier\.com/hooks/catch/", rb"[0-9A-Za-z/]{8,}", free=True, hint=rb"hooks\.zapier\.com/hooks/catch/"),
        Vendor("hook-url", rb"(?:https?://(?:[a-z-]+\.)?)?hook\.[a-z0-9.]*(?:make|integromat)\.com/", rb"[a-z0-9]{16,}", free=True, hint=rb"hook\.[a-z0-9.]*(?:make|integromat)\.com/"),
        Vendor("hook-url", rb"(?:https?://(?:[a-z-]+\.)?)?chat\.googleapis\.com/v1/spaces/", rb"[^\s\"'<>\\]+", free=True, hint=rb"chat\.googleapis\.com/v1/spaces/"),
        Vendor("telegram-token", rb"\d{8,10}:AA", dashed + rb"{20,}", 45),
        Vendor("telegram-token", rb"bot\d{8,10}:", dashed + rb"{20,}", free=True),
        Vendor("sendgrid-key", rb"SG\.[A-Za-z0-9_-]{6}", rb"[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{6,})?", 69),
        Vendor("mailgun-key", rb"key-[0-9a-f]{4}", rb"[0-9a-z]{20,}", 36),
        Vendor("mailgun-key", rb"[0-9a-f]{32}-[0-9a-f]{8}-", rb"[0-9a-f]{8}", hint=rb"[0-9a-f]{9}-[0-9a-f]{8}-[0-9a-f]{8}"),
        Vendor("mailchimp-key", rb"[0-9a-f]{32}-us", rb"\d{1,2}", hint=rb"[0-9a-f]{4}-us\d"),
        Vendor("brevo-key", rb"xkeysib-", rb"[0-9a-f]{16,}(?:-[A-Za-z0-9]+)?", 89, free=True),
        Vendor("brevo-key", rb"xsmtpsib-", rb"[0-9a-f]{16,}(?:-[A-Za-z0-9]+)?", free=True),
        Vendor("mailjet-key", rb"mlsn\.[0-9a-f]{4}", lower_hex + rb"{20,}"),
        Vendor("resend-key", rb"re_[A-Za-z0-9]{6}", rb"(?:[A-Za-z0-9]{2,}_[A-Za-z0-9]{12,}|[A-Za-z0-9]{18,})", mixed=True),
        Vendor("svix-secret", rb"whsec_", rb"[A-Za-z0-9+/=_-]{10,}", 38, free=True),
        Vendor("twilio-key", rb"SK[0-9a-f]{4}", lower_hex + rb"{28}", 34),
        Vendor("adafruit-key", rb"aio_[A-Za-z0-9]{4}", alnum + rb"{20,}", 32, mixed=True),
        Vendor("firebase-key", rb"AAAA[A-Za-z0-9_-]{7}:", dashed + rb"{40,}", 152),
        Vendor("intercom-token", rb"dG9rO[A-Za-z0-9+/=]{4}", rb"[A-Za-z0-9+/=]{20,}"),
        Vendor("line-token", rb"[A-Za-z0-9+/]{100,}/1O/w1cDnyilFU", rb"=?", hint=rb"/1O/w1cDnyilFU"),
        # observability
        Vendor("grafana-token", rb"gl(?:sa|c)_[A-Za-z0-9]{4}", rb"[A-Za-z0-9+/=_-]{12,}", 46, free=True),
        Vendor("newrelic-key", rb"NR(?:AK|JS|II|RA|AA|SP|IQ|UU|AL)-", rb"[A-Za-z0-9_-]{10,}", 32, free=True),
        Vendor("newrelic-key", rb"eu01xx[0-9a-f]{4}", lower_hex + rb"{20,}NRAL"),
        Vendor("newrelic-key", rb"[0-9a-f]{32,40}", rb"(?:FFFF)?NRAL", hint=rb"[0-9a-fF]NRAL"),
        Vendor("sentry-token", rb"sntr(?:ys|yu)_", rb"[A-Za-z0-9+/=_-]{12,}", 71, free=True),
        Vendor("dynatrace-token", rb"dt0[a-z]\d\d\.[A-Z0-9]{4}", rb"[A-Z0-9.]{12,}", 96, free=True),
        Vendor("honeycomb-key", rb"hc[abx][il][kc]_[a-z0-9]{4}", rb"[a-z0-9]{24,}"),
        Vendor("posthog-key", rb"ph[cx]_[A-Za-z0-9]{4}", alnum + rb"{16,}", 47),
        Vendor("logfire-token", rb"pylf_v\d_[a-z]{2}_", alnum + rb"{12,}", free=True),
        Vendor("pagerduty-key", rb"pdus\+_", rb"[A-Za-z0-9_+-]{12,}", free=True),
        # software as a service
        Vendor("shopify-token", rb"shp(?:at|ca|pa|ss|ua|tka)_", rb"[A-Fa-f0-9]{8,}", 38, free=True),
        Vendor("linear-key", rb"lin_(?:api|oauth)_", alnum + rb"{10,}", 48, free=True),
        Vendor("notion-token", rb"ntn_[A-Za-z0-9]{4}", alnum + rb"{10,}", 50),
        Vendor("notion-token", rb"secret_[A-Za-z0-9]{8}", alnum + rb"{16,}", 50, mixed=True),
        Vendor("figma-token", rb"fig(?:d|or|ur|oh|uh)_[A-Za-z0-9_-]{4}", dashed + rb"{12,}", 45),
        Vendor("asana-token", rb"[12]/\d{10,}(?:/\d{10,})?:", lower_hex + rb"{12,}"),
        Vendor("dropbox-token", rb"sl\.[A-Za-z0-9]{1,2}[A-Za-z0-9._-]{4}", rb"[A-Za-z0-9_.-]{32,}", 130, hint=rb"\bsl\.[A-Za-z0-9._-]{14}"),
        Vendor("typeform-token", rb"tfp_[A-Za-z0-9_-]{4}", rb"[A-Za-z0-9_.-]{16,}", 48),
        Vendor("contentful-token", rb"CFPAT-[A-Za-z0-9_-]{4}", dashed + rb"{12,}", 49, free=True),
        Vendor("okta-token", rb"00[A-Za-z0-9_-]{4}", rb"[A-Za-z_-][A-Za-z0-9_-]{34,36}\b", mixed=True, hint=rb"\b00[A-Za-z0-9_-]{39}"),
        Vendor("hubspot-token", rb"pat-(?:na|eu)\d-", rb"[0-9a-f-]{20,}", 44, free=True),
        Vendor("clickup-token", rb"pk_\d{6,}_", rb"[A-Z0-9]{16,}"),
        Vendor("frameio-token", rb"fio-u-", rb"[A-Za-z0-9_=-]{20,}", free=True),
        Vendor("readme-key", rb"rdme_[a-z0-9]{4}", rb"[a-z0-9]{30,}"),
        Vendor("postman-key", rb"PMAK-[0-9a-f]{4}", rb"[0-9a-f-]{20,}", 64, free=True),
        Vendor("launchdarkly-key", rb"(?:sdk|api|mob)-[0-9a-f]{8}-", rb"[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
        Vendor("travel-key", rb"duffel_(?:test|live)_", dashed + rb"{16,}", free=True),
        Vendor("easypost-key", rb"EZ[AT]K[A-Za-z0-9]{4}", alnum + rb"{20,}"),
        Vendor("shipping-key", rb"shippo_(?:live|test)_", lower_hex + rb"{12,}", free=True),
        Vendor("mapbox-token", rb"[ps]k\.eyJ", rb"[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]+)?"),
        Vendor("salesforce-token", rb"00D[A-Za-z0-9]{12,15}!", rb"[A-Za-z0-9_.]{20,}"),
        Vendor("zendesk-token", rb"/token:[A-Za-z0-9]{4}", alnum + rb"{12,}", free=True),
        Vendor("cal-key", rb"cal_(?:live_|test_)?[0-9a-f]{8}", lower_hex + rb"{24,}"),
        Vendor("wakatime-key", rb"waka_[0-9a-f]{8}", rb"[0-9a-f-]{20,}"),
        Vendor("clerk-key", rb"(?:sk|pk)_(?:live|test)_", rb"[A-Za-z0-9]{16,}"),
        Vendor("workos-key", rb"sk_(?:live_|test_)?a2V5[A-Za-z0-9]", alnum + rb"{16,}"),
        Vendor("deno-token", rb"dd[op]_[A-Za-z0-9]{6}", alnum + rb"{24,}"),
        Vendor("sandbox-key", rb"e2b_[0-9a-f]{8}", lower_hex + rb"{24,}"),
        Vendor("axiom-token", rb"xa[ap]t-[0-9a-f]{8}-", rb"[0-9a-f-]{20,}"),
        Vendor("linkedin-secret", rb"WPL_AP1\.", rb"[A-Za-z0-9._=-]{12,}", free=True),
        Vendor("network-key", rb"dnkey-", rb"[A-Za-z0-9_=-]{20,}", free=True),
        Vendor("onfido-token", rb"api_(?:live|sandbox)(?:_[a-z]{2})?\.", rb"[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{16,}", free=True),
        Vendor("openshift-token", rb"sha256~", dashed + rb"{30,}", free=True),
        Vendor("rootly-key", rb"rootly_[0-9a-f]{4}", lower_hex + rb"{28,}"),
        Vendor("twitter-token", rb"A{20,22}[A-Za-z0-9%]{4}", rb"[A-Za-z0-9%]{50,}", mixed=True),
        Vendor("yandex-key", rb"t1\.[A-Za-z0-9_-]{30}", rb"[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{60,}"),
        Vendor("shopify-token", rb"prtapi_[0-9a-f]{4}", lower_hex + rb"{20,}"),
        Vendor("vercel-token", rb"vercel_[a-z]+(?:_[a-z]+)?_[A-Za-z0-9]{6}", rb"[A-Za-z0-9_]{16,}"),
        Vendor("adobe-secret", rb"p8e-[A-Za-z0-9]{4}", rb"[A-Za-z0-9]{24,}", mixed=True),
        Vendor("facebook-token", rb"[0-9]{13,17}\|", rb"[A-Za-z0-9_-]{20,40}", hint=rb"[0-9]\|[A-Za-z0-9_-]{20}"),
        Vendor("ionic-token", rb"ion_[A-Za-z0-9]{8}", alnum + rb"{32,}", mixed=True),
        Vendor("scalingo-token", rb"tk-us-[A-Za-z0-9_-]{8}", dashed + rb"{32,}", mixed=True),
        Vendor("unkey-key", rb"unkey_[A-Za-z0-9]{8}", alnum + rb"{12,}", mixed=True),
        Vendor("rapidapi-key", rb"[A-Za-z0-9]{10}msh[A-Za-z0-9]{15}p1[A-Za-z0-9]{6}jsn", alnum + rb"{12}", hint=rb"jsn[A-Za-z0-9]{12}"),
        # Whoever invents the next one will most likely spell it like this.
        Vendor("vendor-key", rb"[a-z]{2,12}[_-](?:live|test|prod|sk|pk|pat|key|secret|token|api|apikey|v1)[_-][A-Za-z0-9]{6}",
               rb"[A-Za-z0-9]{10,}", mixed=True,
               hint=rb"[_-](?:live|test|prod|sk|pk|pat|key|secret|token|api|apikey|v1)[_-][A-Za-z0-9]{14}"),
        # tokens of a common shape
        Vendor("jwt", rb"eyJ[A-Za-z0-9_-]{8}", rb"[A-Za-z0-9_=-]*(?:\.[A-Za-z0-9_=-]+){1,4}"),
        Vendor("jwt", rb"eyJ(?:hbGci|0eXAi|raWQi|lbmMi)[A-Za-z0-9_-]", rb"[A-Za-z0-9_-]{6,}"),
        Vendor("private-key", rb"LS0tLS1CRUdJTi(?:BSU|BQU|BFQ|BPU|BEU|BFT|BQR)[A-Za-z0-9+/]", rb"[A-Za-z0-9+/=]{20,}", free=True),
        Vendor("password-hash", rb"\$(?:apr1|2[abxy]|[156y]|argon2(?:id|i|d)|scrypt)\$", rb"[A-Za-z0-9./$=,+_-]{16,}", free=True),
        Vendor("password-hash", rb"(?:pbkdf2|bcrypt|scrypt|argon2)_?\w*\$", rb"[A-Za-z0-9./$=,+_-]{16,}"),
        Vendor("password-hash", rb"SCRAM-SHA-(?:1|256|512)\$\d+:", rb"[A-Za-z0-9+/=$:]{20,}", free=True),
        Vendor("password-hash", rb"\{(?:SSHA|SHA|SMD5|CRYPT|SSHA256|SSHA512)\}", rb"[A-Za-z0-9+/=$.]{16,}", free=True),
        Vendor("fernet-token", rb"gAAAAA[A-Za-z0-9_-]{4}", rb"[A-Za-z0-9_=-]{50,}"),
        Vendor("ssh-key", rb"b3BlbnNzaC1rZXktdjE", rb"[A-Za-z0-9+/=\s]{20,}", free=True),
        Vendor("putty-key", rb"Private-Lines: \d+", rb"(?:(?:\r?\n|(?:\\+r)?\\+n)[A-Za-z0-9+/=]{24,})+", free=True),
        Vendor("mnemonic", rb"(?i:(?:seed|recovery) phrase:? )", rb"(?:[a-z]{3,8} ){11,23}[a-z]{3,8}", free=True),
    )
    # fmt: on


VENDORS: Final[tuple[Vendor, ...]] = _rows()
TRIGGER: Final = b"|".join(
    (
        *(vendor.hint or vendor.prefix for vendor in VENDORS if vendor.free or vendor.hint),
        _LEFT + b"(?:" + b"|".join(vendor.prefix for vendor in VENDORS if not vendor.free and not vendor.hint) + b")",
    )
)


@functools.cache
def _gate() -> Gate:
    return gate(vendor.hint or (vendor.prefix if vendor.free else _LEFT + vendor.prefix) for vendor in VENDORS)


def spans(data: bytes) -> Iterator[Span]:
    """Every key of every vendor."""
    for hit in sorted(_gate().Match(data) or ()):
        yield from VENDORS[hit].spans(data)
