"""Credentials that their own shape gives away, as templates of `Draw.fill`."""

from redaction_audit.draw import Draw

TEMPLATES: dict[str, tuple[str, ...]] = {
    "aws-access-key-id": ("AKIA{B16}", "ASIA{B16}"),
    "github-token": ("ghp_{a36}", "gho_{a36}", "ghs_{a36}", "ghu_{a36}", "ghr_{a36}"),
    "github-fine-grained": ("github_pat_{a22}_{a59}",),
    "gitlab-token": ("glpat-{u20}", "glptt-{h40}", "gldt-{u20}", "glrt-{u20}"),
    "slack-token": ("xoxb-{d12}-{d13}-{a24}", "xoxp-{d12}-{d12}-{d13}-{h32}", "xapp-1-A{A10}-{d13}-{h64}"),
    "slack-webhook": ("https://hooks.slack.com/services/T{A8}/B{A10}/{a24}",),
    "stripe-key": ("sk_live_{a24}", "rk_live_{a99}", "sk_test_{a24}"),
    "stripe-webhook": ("whsec_{a32}",),
    "openai-key": ("sk-{a20}T3BlbkFJ{a20}", "sk-proj-{u74}T3BlbkFJ{u74}", "sk-svcacct-{u58}T3BlbkFJ{u58}"),
    "openai-project-short": ("sk-proj-{a48}",),
    "anthropic-key": ("sk-ant-api03-{u93}AA", "sk-ant-admin01-{u93}AA", "sk-ant-oat01-{u93}AA"),
    "google-api-key": ("AIza{u35}",),
    "google-oauth-token": ("ya29.{u120}",),
    "google-client-secret": ("GOCSPX-{u28}",),
    "sendgrid": ("SG.{u22}.{u43}",),
    "mailchimp": ("{h32}-us{d2}",),
    "npm": ("npm_{a36}",),
    "pypi": ("pypi-AgEIcHlwaS5vcmc{u85}",),
    "digitalocean": ("dop_v1_{h64}", "doo_v1_{h64}"),
    "huggingface": ("hf_{a34}",),
    "databricks": ("dapi{h32}", "dapi{h32}-2"),
    "shopify": ("shpat_{h32}", "shpss_{h32}", "shpca_{h32}"),
    "square": ("sq0atp-{u22}", "sq0csp-{u43}"),
    "telegram-bot": ("{d10}:AA{u33}",),
    "discord-bot": ("MT{a24}.{u6}.{u38}",),
    "discord-webhook": ("https://discord.com/api/webhooks/{d18}/{u68}",),
    "teams-webhook": (
        "https://contoso.webhook.office.com/webhookb2/{h8}-{h4}-{h4}-{h4}-{h12}/IncomingWebhook/{h32}/{h12}",
    ),
    "azure-client-secret": ("{a3}8Q~{u34}",),
    "newrelic": ("NRAK-{A27}", "NRJS-{h19}"),
    "grafana": ("glsa_{a32}_{h8}", "glc_eyJ{a60}"),
    "linear": ("lin_api_{a40}",),
    "notion": ("ntn_{d11}{a35}", "secret_{a43}"),
    "airtable": ("pat{a14}.{h64}",),
    "atlassian": ("ATATT3xFfGF0{u176}={H8}",),
    "bitbucket": ("ATBB{a32}",),
    "vault": ("hvs.{u95}", "hvb.{u140}"),
    "terraform-cloud": ("{a14}.atlasv1.{u67}",),
    "doppler": ("dp.pt.{a43}", "dp.st.prd.{a43}"),
    "pulumi": ("pul-{h40}",),
    "planetscale": ("pscale_tkn_{u43}", "pscale_pw_{u43}"),
    "supabase": ("sbp_{h40}",),
    "rubygems": ("rubygems_{h48}",),
    "dockerhub": ("dckr_pat_{u27}",),
    "dynatrace": ("dt0c01.{A24}.{A64}",),
    "sentry": ("sntryu_{h64}",),
    "postman": ("PMAK-{h24}-{h34}",),
    "replicate": ("r8_{a37}",),
    "groq": ("gsk_{a52}",),
    "xai": ("xai-{a80}",),
    "perplexity": ("pplx-{a48}",),
    "openrouter": ("sk-or-v1-{h64}",),
    "langsmith": ("lsv2_pt_{h32}_{h10}", "lsv2_sk_{h32}_{h10}"),
    "facebook": ("EAACEdEose0cBA{a60}", "EAAG{a150}"),
    "figma": ("figd_{u40}",),
    "age": ("AGE-SECRET-KEY-1{A58}",),
    "heroku": ("HRKU-AA{u58}",),
    "typeform": ("tfp_{u59}",),
    "sonar": ("sqp_{h40}", "squ_{h40}"),
    "tailscale": ("tskey-auth-k{a10}CNTRL-{a32}", "tskey-api-k{a10}CNTRL-{a32}"),
    "fly": ("FlyV1 fm2_{b120}",),
    "pinecone": ("pcsk_{a6}_{a62}",),
    "brevo": ("xkeysib-{h64}-{a16}",),
    "plaid": ("access-production-{h8}-{h4}-{h4}-{h4}-{h12}",),
    "buildkite": ("bkua_{h40}",),
    "circleci": ("CCIPAT_{a22}_{h40}",),
    "sourcegraph": ("sgp_{h16}_{h40}",),
    "jfrog": ("AKCp8{a68}",),
    "contentful": ("CFPAT-{u43}",),
    "easypost": ("EZAK{a54}",),
    "shippo": ("shippo_live_{h40}",),
    "prefect": ("pnu_{a36}",),
    "fcm-legacy": ("AAAA{a7}:APA91b{u134}",),
    "adafruit": ("aio_{a28}",),
    "duffel": ("duffel_live_{u43}",),
}


def vendor_key(draw: Draw, kind: str) -> str:
    """One key of that vendor; a path-shaped one keeps its public host in front."""
    return draw.fill(draw.choice(TEMPLATES[kind]))


def secret_part(kind: str, key: str) -> str:
    """What of it has to go: of a webhook's address only the path that authorises, no public number in front."""
    match kind:
        case "slack-webhook" | "discord-webhook":
            return key.rsplit("/", 1)[1]
        case "teams-webhook":
            return key.split("/IncomingWebhook/")[1].split("/", maxsplit=1)[0]
        case "telegram-bot":
            return key.split(":")[1]
        case "fly":
            return key.split(" ")[1]
        case _:
            return key
