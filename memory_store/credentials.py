"""A secret that is kept would be shown to a model again and again. So nothing that looks like one becomes an entry.

Three kinds of signs, from sure to likely: formats that only credentials have; words that introduce one, in many
languages; long strings that no one would read aloud. What merely speaks of passwords passes, and so do digests, ids
and names, which a developer's memory is full of. A secret of plain words that nothing introduces cannot be seen.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator

_FORMATS: dict[str, tuple[str, ...]] = {
    "a private key": (
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY",
        r"PuTTY-User-Key-File-\d",
        r"b3BlbnNzaC1rZXktdjE",
        r"AGE-SECRET-KEY-1[A-Z0-9]{20}",
    ),
    "an API key": (
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        r"AIza[\w-]{30}",
        r"GOCSPX-[\w-]{20}",
        r"(?<![A-Za-z0-9])sk-(?=[\w-]{0,40}\d)[\w-]{20}",  # OpenAI, Anthropic and others after them
        r"(?<![A-Za-z0-9])rs_[\w-]{43}(?![\w-])",  # this project's own
        r"(?<![A-Za-z0-9])[sr]k_(?:live|test)_\w{16}",
        r"whsec_[\w+/]{20}",
        r"SG\.[\w-]{16,40}\.[\w-]{16}",
        r"(?<![A-Za-z0-9])(?:gsk|r8|re|fw|lin_api|nvapi|pplx|xai|tvly|key|figd|PMAK|tskey|sntrys|sbp)"
        r"[_-](?=[\w-]{0,40}\d)[A-Za-z0-9][\w-]{23}",
        r"(?<![A-Za-z0-9])SK[0-9a-f]{32}(?![0-9a-f])",
        r"AccountKey=[A-Za-z0-9+/]{20}",
    ),
    "a token": (
        r"gh[pousr]_[A-Za-z0-9]{30}",
        r"github_pat_\w{22}",
        r"(?<![A-Za-z0-9])gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas|imt|ffct)-[\w-]{20}",
        r"xox[abeoprs]-[\w-]{10}",
        r"xapp-\d-[\w-]{10}",
        r"hooks\.slack\.com/services/T\w{6,12}/B\w{6,12}/\w{16}",
        r"discord(?:app)?\.com/api/webhooks/\d{15,20}/[\w-]{30}",
        r"ya29\.[\w-]{20}",
        r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}",
        r"pypi-Ag[\w-]{20}",
        r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30}",
        r"dckr_pat_[\w-]{20}",
        r"(?<![A-Za-z0-9])do[opr]_v1_[0-9a-f]{32}",
        r"(?<![A-Za-z0-9])shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
        r"(?<![A-Za-z0-9])(?:hv[sb]\.[\w-]{20}|dapi[0-9a-f]{32}|gl(?:sa|c)_[\w=+/]{20}|ATATT3[\w=-]{20})",
        r"(?<!\d)\d{8,10}:AA[\w-]{30}",
        r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.",  # a JWT: both parts are JSON
        r"(?i:\bbearer)\s+(?=[\w.~+/-]{0,60}\d)[\w.~+/-]{16}",
        r"(?i:authorization|x-api-key|x-auth-token)\s*[:=]\s*(?i:basic|bearer|digest|token)?\s*[\w.~+/=-]{12}",
        r"otpauth://",
    ),
    "a password": (r"(?<!\w)sshpass +-p *\S", r"\bmysql\w*\b[^\n]{0,40} -p[^\s*<{$]{3}"),
    "a recovery phrase": (r"(?i:seed|recovery|mnemonic|secret) phrase\W{1,4}(?:is )?(?:[a-z]{3,8} ){11}[a-z]{3}",),
    "a URL with a password": (
        r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@]{0,80}:(?![*x.]+@|[<{$%])[^\s/@]{1,100}@",
        r"[?&](?i:access_token|auth_token|token|api_?key|key|secret|client_secret|password|passwd|pwd|sig|signature|"
        r"x-amz-signature)=(?=[^\s&#]{0,60}\d)[^\s&#*<{$]{8}",
        r"(?<!\w)(?:-u|--user)[ =][\w.@-]{1,40}:[^\s*<{$]{3}",
    ),
}
_PUBLIC = re.compile(
    r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://\S+"
    r"|\b(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\w+) AAAA\S+"
    r"|\b(?i:md5|sha\d{1,3})[-:][A-Za-z0-9+/=_-]+"
)
_BASIC = re.compile(r"(?i:\bbasic)\s+([A-Za-z0-9+/]{8,200}={0,2})")

_CARD = re.compile(r"(?<![\w+])(?<!\d[ .-])(?<!\+\d[ -])\d(?:[ .-]?\d){12,18}(?![ .-]?\d)(?!\w)")
_CARD_DIGITS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3[0689]\d{12}|35\d{14}|6\d{15,18}|5[0678]\d{14,17}"
)

# Words that introduce a secret. A strong one may be followed by any single word, a weak one has other meanings too.
_STRONG = (
    r"password|passwd|passphrase|pass ?code|kennwort|passwort|lozink[aeuo]m?|zapork[aeuo]m?|лозинк[aаеуо]м?|пароль|пароля|"
    r"парол[аею]м?|mot de passe|contrase(?:ñ|n)a|senha|palavra[- ]passe|parola d'ordine|has[łl]o|hesl[oa]|gesl[oa]|"
    r"jelsz(?:ó|avam|o)|şifre\w{0,3}|parolă|parola mea|wachtwoord|l(?:ö|o)senord(?:et)?|adgangskode|"
    r"passord(?:et)?|salasana\w{0,3}|slaptažodis|"
    r"κωδικός πρόσβασης|κωδικός μου|كلمة (?:المرور|السر)|رمز عبور|סיסמ[הא]|पासवर्ड|密码|密碼|口令|パスワード|비밀번호|mật khẩu|"
    r"kata sandi|รหัสผ่าน"
)
_WEAK = r"passwords|pwd|pw|pass|mdp|clave|parola|[šs]ifr[aeuo]m?|шифра|sifre\w{0,3}|credentials?"
_KEY = (
    r"(?:api|access|secret|private|auth|encryption|signing|account|service|client|bot|deploy|refresh|session)"
    r"[ _-]?(?:key|token|secret)|apikey|token|secret|(?:api|tajni)[ -]?klju[čc]|(?:api|geheimer)[ -]?schl(?:ü|ue)ssel|"
    r"cl(?:é|e) (?:d')?(?:api|secr(?:è|e)te)|chiave (?:api|segreta)|clave (?:de )?api|chave (?:de |da )?api|klucz api|"
    r"(?:api )?kl(?:í|i)č api|токен|(?:api[- ]?)?ключ(?: api)?|密钥|密鑰|令牌|apiキー|api 키"
)
_PIN = (
    r"pin(?:[ -]?(?:code|kod|broj|nummer|number|kartice|mobitela|telefona|sim-a))?|пин(?:-?код)?|暗証番号|cvv2?|cvc2?|otp|puk|"
    r"(?:access|door|alarm|gate|security|verification|unlock|entry|safe|backup|recovery|2fa|one[- ]time|login) code|"
    r"(?:tür|tuer|zugangs|alarm)code|code (?:d'accès|d'acces|secret)|c(?:ó|o)digo de (?:acceso|acesso|seguridad)|"
    r"codice (?:di accesso|segreto)|pristupni kod|kod (?:za (?:vrata|alarm)|alarma|do drzwi)|κωδικός|код"
)
_INTRODUCING = re.compile(
    rf"(?<![0-9A-Za-z\u00c0-\u024f\u0400-\u04ff])(?:(?P<strong>{_STRONG})|(?P<key>{_KEY})|(?P<pin>{_PIN})|(?P<weak>{_WEAK}))"
    r"(?![0-9A-Za-z_/-])"
    r"|(?<=[a-z])(?P<camel>(?-i:Password|Passwd))(?![A-Za-z_])"
    r"|(?<=[a-z])(?P<camel_key>(?-i:Token|Secret|ApiKey))(?![A-Za-z_])",
    re.IGNORECASE,
)
_ALSO = r"(?:\s+(?:now|sada|sad|jetzt|maintenant|ahora|adesso|agora|teraz|nyní|теперь|currently|still|set to))?"
_IS = (
    r"[\s'\"`*]{0,4}(?:\\?[:=]+>?|'s\s|:?\s*its\s|->|→|[–—-]\s)\s*|\s*(?:是|为|為|は|が|는|은|가)\s*|"
    r"\s+(?:is|was|be|equals|je|glasi|bila|jest|to|brzmi|ist|lautet|war|est|es|era|è|é|on|är|er|"
    r"adalah|là|este|e|је|היא|هي|है|คือ|είναι)"
    rf"{_ALSO}:?\s+"
)
_SEPARATOR = re.compile(_IS, re.IGNORECASE)
_FOR = (
    r"for|to|of|on|at|za|od|na|für|fuer|zum|zur|vom|pour|de|du|para|do|da|per|di|del|dla|k|ke|pro|для|от|к|на|voor|för|till|til|mi|"
    r"мой|שלי|mea|mia|moja"
)
_QUALIFIED = re.compile(rf"\s+(?:{_FOR}|\([^)]{{1,40}}\))(?:\s+[^\s:=.,;]+){{0,4}}(?:{_IS})", re.IGNORECASE)
_QUOTED = re.compile(r"[\"'`«“„‘‚「『]([^\"'`»”“’」』\n]{3,80})[\"'`»”“’」』]")
_VALUE = re.compile(r"[!-~]{1,100}|[^\s,;。、\u3040-\u9fff\uac00-\ud7af]{1,100}")
_CLAUSE_ENDS = re.compile(r"\s*(?:$|[.,;!?)。、\n]|(?:and|i|und|et|y|e|oraz|a|и)\s|です|だ|입니다)", re.IGNORECASE)
_PLACEHOLDER = re.compile(
    r"[*x•.…_?-]+|<.*|\$.*|\{.*|%.*|\[.*|https?:.*|/.*|~/.*|\.\.?/.*|.*\.(?:txt|env|ya?ml|json|md|py)", re.IGNORECASE
)
_TECHNICAL = re.compile(
    r"(?:argon|sha-?\d|bcrypt|scrypt|pbkdf|md5|oauth|openid|base\d|ed25519|rsa|hs\d|rs\d|es\d|aes|utf|jwt|keepass|bitwarden|1password|"
    r"ios|win|python|node|php|v?\d+\.\d|v\d|\d+(?:st|nd|rd|th)\b|\d{1,2}[:/.-]\d|\d{4}-\d\d)",
    re.IGNORECASE,
)
_ORDINARY_WORDS = """
    required optional none unknown yes no never always forgotten secret hidden redacted empty same long short weak
    strong safe expired wrong right correct invalid valid missing old new set unset changed stored hashed salted
    encrypted rotated reset protected lost gone here there below above private public personal important different
    unique complex simple random bad good fine ok okay true false null todo tbd needed mandatory disabled enabled
    plain secure insecure case-sensitive obavezna obvezna potrebna zaboravljena duga kratka jaka slaba sigurna
    nesigurna tajna ista kriva točna tocna stara nova istekla promijenjena spremljena zaštićena zasticena važna
    vazna jednostavna složena slozena nepoznata prazna dobra loša losa erforderlich nötig vergessen lang kurz
    stark schwach sicher unsicher geheim gleich falsch richtig alt neu abgelaufen gespeichert geändert wichtig
    leer einfach obligatoire requis oublié court fort faible sûr incorrect expiré nouveau vieux obligatoria
    necesaria larga corta fuerte débil segura incorrecta nueva vieja secreta obbligatoria necessaria lunga forte
    debole sicura errata nuova vecchia segreta obrigatória longa curta fraca antiga wymagane długie krótkie silne
    słabe bezpieczne złe nowe stare tajne povinné dlouhé krátké silné slabé bezpečné špatné nové staré обязателен
    длинный короткий сильный слабый надёжный надежный неверный новый старый секретный нужен забыт
"""
_ORDINARY = frozenset(_ORDINARY_WORDS.split())
_REVERSED = re.compile(
    r"(?P<value>[!-~]{6,64})\s+(?:is|je|ist|est|es|è|é|to|as|kao|als|comme|como|come|jako|это|как)\s+(?:\w+\s+){0,3}?"
    rf"(?:{_STRONG}|lozinku|zaporku|šifru)(?=\s*(?:$|[.,;!?]))",
    re.IGNORECASE,
)

_LONG = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{24,}={0,2}")
_HEX_OR_UUID = re.compile(r"(?:[a-z]{1,10}[_-])?(?:0x)?[0-9a-fA-F-]+", re.ASCII)
_SPOKEN = re.compile(r"[A-Z]?[a-z]{3,}|(?<![A-Za-z])[A-Z]{3,}(?![A-Za-z])")
_MOST_SPOKEN = 0.5  # of random letters and digits about a fifth lie in runs of three small letters; of names, most
_LEAST_BITS = 3.5  # a character, by Shannon; random strings of 24 have about 4.2


def kind_of_credential(text: str) -> str | None:
    """What `text` looks like that must not be kept, such as "an API key"; None where it may be kept."""
    plain = _plain(text)
    signs: tuple[Callable[[str], str | None], ...] = (_known_format, _introduced, _card, _random)
    return next((kind for sign in signs if (kind := sign(plain))), None)


def _plain(text: str) -> str:
    """One form for what looks alike: full-width letters, other digits, marks that show nothing."""
    return "".join(_plain_char(char) for char in unicodedata.normalize("NFKC", text))


def _plain_char(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Cf" or char in "\u034f\u115f\u1160\u3164\u17b4\u17b5" or "\ufe00" <= char <= "\ufe0f":
        return ""
    return str(unicodedata.decimal(char)) if category == "Nd" else char


def _known_format(text: str) -> str | None:
    for kind, pattern in _PATTERNS:
        if pattern.search(text):
            return kind
    return "a password" if any(_user_and_password(found[1]) for found in _BASIC.finditer(text)) else None


_PATTERNS = [(kind, re.compile("|".join(patterns))) for kind, patterns in _FORMATS.items()]


def _user_and_password(encoded: str) -> bool:
    """Whether it is the `user:password` of an HTTP header."""
    try:
        return b":" in base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return False


def _introduced(text: str) -> str | None:
    for found in _INTRODUCING.finditer(text):
        word = found.lastgroup or ""
        for value, ends, told in _values(text[found.end() : found.end() + 200]):
            if kind := _JUDGES[word](value, ends, told):
                return kind
    return "a password" if any(_mixed(found["value"]) for found in _REVERSED.finditer(text)) else None


def _values(rest: str) -> Iterator[tuple[str, bool, bool]]:
    """What may be the secret after an introducing word: the value, whether its clause ends there, whether a "is" or a
    colon stands before it."""
    for told in (_SEPARATOR.match(rest), _QUALIFIED.match(rest)):
        if told:
            yield from _value(rest[told.end() :], told=True)
    yield from _value(rest.lstrip(" \t\"'`"), told=False)


def _value(rest: str, *, told: bool) -> Iterator[tuple[str, bool, bool]]:
    if told and (quoted := _QUOTED.match(rest)):
        yield f'"{quoted[1]}"', True, told
    elif found := _VALUE.match(rest):
        bare = found[0].rstrip(".,;:!?)\"'`}]")
        if not told and not (bare[:1].isalnum() and bare.isascii()):
            return
        yield bare, _CLAUSE_ENDS.match(rest[len(bare) :].lstrip("\"'`")) is not None, told


def _password(value: str, ends: bool, told: bool) -> str | None:
    if value.startswith('"'):
        return None if _PLACEHOLDER.fullmatch(value.strip('"')) else "a password"
    word = told and ends and len(value) >= 4 and value[0].isalnum() and value.casefold() not in _ORDINARY
    return "a password" if _fit(value) and (word or _mixed(value)) else None


def _weak_password(value: str, ends: bool, told: bool) -> str | None:
    number = told and ends and re.fullmatch(r"\d{4,12}", value)
    return "a password" if _fit(value) and (number or (_mixed(value) and ends and told)) else None


def _key(value: str, ends: bool, told: bool) -> str | None:
    return "a key or a token" if _fit(value) and _mixed(value) and len(value.strip('"')) >= 8 else None


def _pin(value: str, ends: bool, told: bool) -> str | None:
    return "a PIN or a code" if ends and re.fullmatch(r'"?\d{3,8}"?', value) else None


_JUDGES: dict[str, Callable[[str, bool, bool], str | None]] = {
    "strong": _password, "camel": _password, "weak": _weak_password, "key": _key, "camel_key": _key, "pin": _pin,
}  # fmt: skip


def _fit(value: str) -> bool:
    """Whether a value may be a secret: no placeholder, path or file, no technique, version or date."""
    return not _PLACEHOLDER.fullmatch(value) and not _TECHNICAL.match(value)


def _mixed(value: str) -> bool:
    """Letters and digits, or letters and signs, in one: few words are, most secrets are."""
    value = value.strip('"')
    letters, digits = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    signs = any(char in "!$%^&*#@+?~" for char in value)
    return len(value) >= 6 and letters and (digits or signs) and _fit(value)


def _card(text: str) -> str | None:
    for found in _CARD.finditer(text):
        digits = re.sub(r"\D", "", found[0])
        if _CARD_DIGITS.fullmatch(digits) and _luhn(digits):
            return "a card number"
    return None


def _luhn(digits: str) -> bool:
    """The check digit of card numbers, ISO/IEC 7812-1 annex B."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


def _random(text: str) -> str | None:
    found = _LONG.findall(_PUBLIC.sub(" ", text))
    return "a key or a token" if any(map(_looks_random, found)) else None


def _looks_random(word: str) -> bool:
    if _HEX_OR_UUID.fullmatch(word):
        return False
    spoken = sum(map(len, _SPOKEN.findall(word))) / len(word)
    return _varied(word) and spoken < _MOST_SPOKEN and _bits(word) >= _LEAST_BITS


def _varied(word: str) -> bool:
    """Small and capital letters and digits; or, in one piece, small letters and several digits."""
    digits = sum(map(str.isdigit, word))
    if re.search("[a-z]", word) and re.search("[A-Z]", word):
        return digits >= 1
    return digits >= 4 and re.fullmatch("[a-z0-9]+", word) is not None


def _bits(word: str) -> float:
    counts = Counter(word).values()
    return -sum(count / len(word) * math.log2(count / len(word)) for count in counts)
