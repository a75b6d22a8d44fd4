"""Nothing that looks like a credential is kept; what merely speaks of one, and a developer's ids and names, are."""

from __future__ import annotations

import base64
import random
import secrets
import string
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_store.credentials import kind_of_credential
from memory_store.entry import new_id

LETTERS = string.ascii_letters + string.digits
DICE = random.Random(20261201)


def made(count: int, letters: str = LETTERS) -> str:
    """Random characters, among them a capital, a small letter and a digit; put together here, so that no scanner of
    repositories takes them for a leak."""
    return "aZ7" + "".join(DICE.choices(letters, k=count - 3))


JWT = ".".join([*(base64.urlsafe_b64encode(b'{"alg":"HS256","n":12}').decode().rstrip("=") for _ in "12"), made(43)])
KNOWN = {
    "AWS access key id": "AKIA" + "IOSFODNN7EXAMPL2",
    "AWS temporary": "key ASIA" + "Y34FZKBOKMUTVV7A in us-east-1",
    "AWS secret": "aws secret " + "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY",
    "GitHub": "ghp_" + made(36),
    "GitHub app": "use ghs_" + made(36) + " for CI",
    "GitHub fine-grained": "github_pat_" + made(22) + "_" + made(59),
    "GitLab": "glpat-" + made(20),
    "Slack": "xoxb-" + "1234567890-1234567890-" + made(24),
    "Slack webhook": "https://hooks.slack.com/services/T01ABCDEF/B01ABCDEF/" + made(24),
    "Google": "AIza" + made(35),
    "Google OAuth": "ya29." + made(60),
    "Stripe": "sk_live_" + made(24),
    "Stripe restricted": "rk_test_" + made(24),
    "OpenAI": "sk-" + made(48),
    "OpenAI project": "sk-proj-" + made(48),
    "Anthropic": "sk-ant-api03-" + made(40),
    "ours": "rs_" + made(43),
    "ours with its signs": "my key is rs_" + made(41) + "-_",
    "npm": "npm_" + made(36),
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + made(40),
    "Hugging Face": "hf_" + made(34),
    "SendGrid": "SG." + made(22) + "." + made(43),
    "Telegram": "123456789:AA" + made(33),
    "DigitalOcean": "dop_v1_" + secrets.token_hex(32),
    "JWT": JWT,
    "JWT in words": f"The session is {JWT}, valid for an hour",
    "PEM": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA",
    "PEM plain": "-----BEGIN PRIVATE KEY-----",
    "SSH": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "SSH body": "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ",
    "PGP": "-----BEGIN PGP PRIVATE KEY BLOCK-----",
    "Basic header": "Authorization: Basic YW5hOmh1bnRlcjI=",
    "Basic alone": "send Basic YW5hOmh1bnRlcjI= with it",
    "Bearer header": "Authorization: Bearer " + made(30),
    "X-Api-Key": "X-API-Key: 0123456789abcdef",
    "Azure storage": "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=" + made(80) + "==",
    "Postgres URL": "postgres://ana:hunter2@db.example.org/app",
    "Redis URL": "redis://:hunter2@10.0.0.1:6379",
    "HTTPS URL": "git clone https://ana:s3cret@example.org/repo.git",
    "query": "https://api.example.org/v1?api_key=0123456789abcdef",
    "signed URL": "https://x.example.org/a?X-Amz-Signature=" + secrets.token_hex(32),
    "curl": "curl -u ana:hunter2 https://example.org",
    "TOTP": "otpauth://totp/x?secret=JBSWY3DPEHPK3PXP",
    "Visa": "4111 1111 1111 1111",
    "Visa with hyphens": "my card is 4111-1111-1111-1111, valid 12/30",
    "Mastercard": "5555555555554444",
    "Amex": "3782 822463 10005",
    "Arabic digits": "٤١١١١١١١١١١١١١١١",
    "random": made(32),
    "random base64": base64.b64encode(bytes(range(7, 240, 5))).decode(),
    "random url-safe": "it is " + made(24) + "-" + made(12) + "_" + made(4),
    "random small": "k3j9x0q2m7v4z8w1p5t6r0n2",
}  # fmt: skip

INTRODUCED = [
    "password: hunter2", "Password = hunter2", "my password is hunter2", "My password is swordfish.",
    "passwd:hunter2", "The wifi password is Sommer2024!", "password for the wifi is kittens99",
    "password for my bank: tr0ub4dor&3", 'password is "correct horse battery staple"', "DB_PASSWORD=hunter2",
    "export API_TOKEN=abc123def456", "pw: hunter2", '{"user": "ana", "password": "hunter2"}', "dbPassword = hunter2",
    "password hunter2", "I use hunter2 as my password", "hunter2 is my password.",
    "Remember that my password is hunter2 and my PIN is 4711", "passphrase: swordfish",
    "api key: 5f4dcc3b5aa765d61d8327deb882cf99", "The API key is 550e8400-e29b-41d4-a716-446655440000",
    "token = 9f86d081884c7d659a2feaa0", "client_secret: 8xk29dk3lq", "secret: x9!kd82jq", "my PIN is 4711",
    "PIN 4711", "The alarm code is 4711.", "CVV 123", "cvc: 737", "door code: 1234", "PIN code: 0000",
    "the pin for my card is 4711", "Lozinka je hunter2", "lozinka: zmaj", "Moja lozinka je zmajevo99.",
    "Lozinka za wifi je mackica123", "lozinka za bazu: tajna99", "Zaporka je Ljeto2024!", "PIN je 4711",
    "PIN kartice je 4711", "šifra za vrata je 4711", "Sifra: zmaj99", "API ključ: 8f3kd93kdl2k",
    "koristim zmaj2024 kao lozinku", "Mein Passwort ist Sommer2024", "Passwort: geheim123",
    "Kennwort lautet: Katze99", "Der PIN ist 4711", "Der Türcode ist 4711", "Mon mot de passe est soleil75",
    "mot de passe : soleil75", "Le code secret est 4711", "Mi contraseña es gatito99", "contrasena: gatito99",
    "La clave es gatito99", "Il mio PIN è 4711", "La mia password è gattino99", "A minha senha é gatinho99",
    "senha: gatinho99", "Moje hasło to kotek99", "hasło: kotek99", "Moje heslo je kocicka99", "heslo: kocicka99",
    "Мой пароль — котик99", "пароль: котик99", "Мой пароль hunter2", "Моја лозинка је мачка99",
    "Mijn wachtwoord is poesje99", "Şifrem: kedicik99", "我的密码是hunter2", "密码：hunter2", "パスワードはhunter2です",
    "비밀번호는 hunter2", "كلمة المرور هي hunter2", "הסיסמה שלי היא hunter2", "Salasanani on kissa123",
    "lösenord: kissen99", "jelszavam: cica1234", "PASSWORD: HUNTER2", "пин-код 4711",
]  # fmt: skip

TRICKS = {
    "full width": "ｐａｓｓｗｏｒｄ： ｈｕｎｔｅｒ２",
    "full-width key": "".join(chr(ord(c) + 0xFEE0) for c in "ghp_" + made(36)),
    "zero width": "\u200b".join("ghp_" + made(36)),
    "joiners": "pass\u200dword: hun\u200cter2",
    "soft hyphens": "pass\u00adword is hunter2",
    "bidi": "\u202epassword: hunter2\u202c",
    "variation marks": "\ufe0f".join("AKIA" + "IOSFODNN7EXAMPL2"),
    "word joiner in a card": "4111\u20601111\u20601111\u20601111",
    "full-width card": "４１１１ １１１１ １１１１ １１１１",
    "tag characters": "AKIA\U000e0041" + "IOSFODNN7EXAMPL2",
    "mathematical letters": "𝐩𝐚𝐬𝐬𝐰𝐨𝐫𝐝: 𝐡𝐮𝐧𝐭𝐞𝐫𝟐",
    "filler": "pass\u3164word: hunter2",
    "no-break spaces": "my\u00a0password\u00a0is\u00a0hunter2",
    "decomposed": "contrasen\u0303a: gatito99",
    "new line": "password:\n  hunter2",
    "markdown": "**password**: `hunter2`",
}

ORDINARY = [
    "The password rotation happens every 90 days", "passwords are stored hashed with argon2",
    "I forget my password often", "Our passwords are stored with argon2id.", "The password is required.",
    "Password: required", "My password is long.", "The password is stored in 1Password.",
    "Passwords live in KeePass2", "I use 1Password", "1Password: installed",
    "The password policy asks for 12 characters.", "password must have at least 12 characters",
    "Password reset takes 2 days", "The password is 12 characters long", "password_hash = argon2id",
    "My password manager is Bitwarden", "KeePass2 is my password manager", "password: <your password>",
    "password: ********", "DB_PASSWORD=$DB_PASSWORD", "DB_PASSWORD=${SECRET}", "password: {{ vault.pw }}",
    "The token is short-lived.", "Tokens expire after 15 minutes", "max_tokens=500", "token_type=bearer",
    "the token budget is 200000", "API keys are rotated in January", "The API key is in the vault",
    "api_key_header = X-Api-Key", "The key is called main-2024", "Secret Santa is on December 24th",
    "My secret is patience.", "The secret of good tea is water at 80°C", "I pin versions in requirements.txt",
    "Pin the version at 2.1.0", "The error code is 404", "HTTP code 500 means a fault", "PIN entry is disabled",
    "Postal code: 10000", "The dress code is casual", "Source code is on GitHub", "The code review is at 1500",
    "La clave es la paciencia", "La parola è d'argento", "Lozinka se mijenja svakih 90 dana", "Zaboravio sam lozinku",
    "Lozinke čuvamo u KeePassu", "Lozinka je duga i jaka", "Lozinka mora imati 12 znakova",
    "Das Passwort ist zu lang", "Passwörter werden gehasht", "Le mot de passe est obligatoire",
    "La contraseña es segura", "Пароль меняется каждые 90 дней", "密码每90天更换一次", "パスワードは定期的に変更します",
    "Hasło jest za krótkie", "550e8400-e29b-41d4-a716-446655440000", "commit 462cf46",
    "fixed in 462cf46a1b2c3d4e5f60718293a4b5c6d7e8f901", "7d1f183", "m_019a2b3c4d5e6f708192a3b4c5d6",
    "marker-1a2b3c4d5e6f", "canary-7f3a", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "The database listens on port 5432",
    "Version 2.13.0 of pydantic", "+385 91 234 5678", "Call me at 0912345678", "+49 1512 3456789",
    "00385 91 234 5678", "Born on 1984-03-12", "2026-12-01T12:00:00Z", "12.03.1984. u 14:30", "at 1700000000000 ms",
    "IMEI 490154203237518", "The order number is 1234567890123456", "ISBN 978-3-16-148410-0",
    "DE89 3704 0044 0532 0130 00", "HR12 1001 0051 8630 0016 0", "src/components/UserProfile2/EditProfileForm.tsx",
    "/Users/Ana/Projects/Work2024/ReadMe", "C:\\Users\\Ana\\Documents\\Report2024",
    "getUserAccountById2FromDatabaseV3", "AbstractSingletonProxyFactoryBean2", "max_retries_before_giving_up_2",
    "HTTPServerV2XMLParserFactory", "RECALL_SERVE_DATA_HOME_2", "ray-worker-group-7d4b9c6f5d-x2x9z",
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "multilingual-e5-small",
    "https://docs.example.org/guide/2024/how-to-configure-the-memory-service?section=Recall2&lang=en#top",
    "https://docs.google.com/document/d/1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms/edit",
    "http://localhost:8000/v1/models", "https://example.org:8080/a@b", "git@github.com:acme/repo.git",
    "ana.horvat@example.org", "mailto:ana@example.org",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJlk5Yb0mZ9q1kq3p2bq7V0mVq1Jm5rj2lX8n3d4f6h7 ana@laptop",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "Rindfleischetikettierungsüberwachungsaufgaben", "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch",
    "достопримечательностями2024интересующийся", "私は毎朝八時に起きて緑茶を飲みます", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaA1",
    "abcdefghijklmnopqrstuvwxyz01", "x" * 500, "=" * 80, "-" * 80, "The person prefers tabs in Go code.",
    "Volim kratke odgovore.", "Bearer of bad news", "Basic auth is off", "Basic knowledge of Go",
    "I prefer task-runner-with-many-options-2 over make", "risk-management-and-planning-2025",
    "Likes basic/plain yoghurt", "My login is ana", "The wifi is slow", "Login: Google", "wifi: 5 GHz",
    "passport: in the drawer", "Compass is my favourite app", "bypass: none", "Our session tokens use HS256",
    "The token is a JWT signed with RS256", "Public key auth only", "key: value", "The key to success is sleep",
    "Ključ je ispod saksije", "klíč je na stole", "", " ",
]  # fmt: skip


@pytest.mark.parametrize("text", KNOWN.values(), ids=KNOWN.keys())
def test_a_known_format_is_seen(text: str) -> None:
    assert kind_of_credential(text)


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_format_is_seen_among_other_words(name: str) -> None:
    assert kind_of_credential(f"Zapamti ovo, molim: {KNOWN[name]}\n— hvala.")


@pytest.mark.parametrize("text", INTRODUCED)
def test_what_is_introduced_as_a_secret_is_seen(text: str) -> None:
    assert kind_of_credential(text)


@pytest.mark.parametrize("text", TRICKS.values(), ids=TRICKS.keys())
def test_unicode_hides_nothing(text: str) -> None:
    assert kind_of_credential(text)


@pytest.mark.parametrize("text", ORDINARY, ids=lambda text: ascii(text)[:60])
def test_ordinary_entries_pass(text: str) -> None:
    assert kind_of_credential(text) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ghp_" + made(36), "a token"), ("sk-ant-" + made(40), "an API key"), ("password: hunter2", "a password"),
        ("-----BEGIN PRIVATE KEY-----", "a private key"), ("4111111111111111", "a card number"),
        ("postgres://a:hunter2@b", "a URL with a password"), ("PIN je 4711", "a PIN or a code"),
        (made(40), "a key or a token"),
    ],
    ids=lambda value: value if value.startswith("a") and " " in value else "",
)  # fmt: skip
def test_the_kind_is_named(text: str, kind: str) -> None:
    assert kind_of_credential(text) == kind


def test_ids_digests_and_uuids_always_pass() -> None:
    for _ in range(300):
        for text in (
            new_id(),
            str(uuid.uuid4()),
            secrets.token_hex(20),
            secrets.token_hex(32),
            f"x-{secrets.token_hex(6)}",
        ):
            assert kind_of_credential(text) is None, text


def test_random_strings_are_seen_but_rarely_missed() -> None:
    keys = ["".join(DICE.choices(LETTERS, k=count)) for count in (24, 32, 40, 64) for _ in range(250)]
    assert sum(kind_of_credential(key) is None for key in keys) <= 0.03 * len(keys)


def test_a_card_number_with_a_wrong_digit_is_a_number() -> None:
    assert [kind_of_credential(f"411111111111111{last}") for last in range(10)].count(None) == 9


NASTY = [
    "password " * 55, "password:" * 55, "lozinka za " * 45, "password for " + "a " * 240, "a" * 500, "aA1" * 166,
    "-" * 500, "sk-" * 166, "sk-" + "a" * 497, "eyJ" * 166, "http://" * 71, "http://" + "a:" * 240, "4 " * 250,
    "4-" * 250, "4" * 500, "Basic " + "A" * 494, "bearer " + "a" * 490, "://" * 166, "&key=" * 100, "\u200b" * 500,
    "\ufdfa" * 500, "(" * 500, 'password is "' + "a" * 480, "password (" + ") (" * 160, "token " * 80, "a.b" * 166,
    "+/=" * 166, " " * 500, "是" * 500, "password" + " " * 492, "password" + "\n:" * 246, "123456789:AA" * 41,
    "x is my " * 62, "aaaaaa as " + "a " * 240,
]  # fmt: skip


def test_no_text_takes_long() -> None:
    """A pattern that tries every way would not end within the time limit of a test."""
    for _ in range(30):
        for text in NASTY:
            kind_of_credential(text[:500])


@given(st.text(max_size=500))
def test_any_text_is_answered(text: str) -> None:
    kind = kind_of_credential(text)
    assert kind is None or kind.startswith(("a ", "an "))


@given(st.text(alphabet="pasword lozinka:=is je 12aZ_-./@&?\"'", max_size=200))
def test_any_text_of_telling_characters_is_answered(text: str) -> None:
    kind_of_credential(text)
