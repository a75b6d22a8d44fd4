"""A small model repeats what it read in the first person, so an episode would say "I" and mean no one can tell whom.

Per language: words of the first person with what stands for them in a report about someone, and words of the second.
Languages that drop the pronoun show the person in the verb, so endings count there, with the words that merely look alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


def _pairs(text: str) -> dict[str, str]:
    """ "a=b c d=e_f" as a table; a word without `=` has nothing that stands for it, `_` is a space."""
    pairs = (pair.partition("=") for pair in text.split())
    return {word: instead.replace("_", " ") for word, _, instead in pairs}


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True)
class Endings:
    """Endings of verbs in a person, with what stands for them; `but`: words that only look so."""

    rules: Mapping[str, str]
    but: frozenset[str]
    least_letters: int = 4

    def instead(self, word: str) -> str | None:
        if len(word) < self.least_letters or word in self.but:
            return None
        for end, new in self.rules.items():
            if word.endswith(end):
                return word[: -len(end)] + new if new else ""
        return None


@dataclass(frozen=True)
class Grammar:
    """How one language speaks of oneself and to another. `first` maps to a third person; all words in lower case."""

    subjects: frozenset[str]  # nouns and pronouns for someone spoken about
    first: Mapping[str, str]
    second: frozenset[str]
    endings: Endings | None = None
    polite: frozenset[str] = frozenset()  # second person only where capitalised inside a sentence
    elided: frozenset[str] = frozenset()
    polished: tuple[tuple[re.Pattern[str], str], ...] = ()

    def third(self, word: str, inside: bool) -> str | None:
        """What stands for a word of the first or second person, "" for nothing; None for any other word. A capital
        `inside` a sentence begins a name."""
        lower = _lower(word)
        if len(word) > 1 and word.isupper():
            return None  # an abbreviation: US, IM
        if lower in self.first:
            return self.first[lower]
        if lower in self.second:
            return ""
        return self.endings.instead(lower) if self.endings and not (inside and word[0].isupper()) else None


_HR_POSSESSIVES = "".join(
    f" {stem}{end}=njezin{end}"
    for stem in ("moj", "naš")
    for end in ("", "a", "e", "i", "u", "eg", "ega", "em", "emu", "im", "ima", "ih", "oj", "om")
)
_HR = Grammar(
    _set("osoba osobe osobi osobu osobom korisnik korisnica korisnika korisniku korisnici ona on njezin njezina"),
    _pairs(
        "ja=ona mene=nju meni=njoj mnom=njom mi=joj me=je nas=nju nam=joj nama=njoj sam=je smo=je nisam=nije nismo=nije "
        "bih=bi bismo=bi jesam=jest ću=će ćemo=će neću=neće nećemo=neće hoću=hoće hoćemo=hoće "
        "želim=želi radim=radi volim=voli koristim=koristi vodim=vodi učim=uči tražim=traži mislim=misli vidim=vidi "
        "živim=živi gradim=gradi mijenjam=mijenja pratim=prati nosim=nosi vozim=vozi dolazim=dolazi govorim=govori "
        "molim pravim=pravi spremim=spremi držim=drži primim=primi dobivam=dobiva selim=seli bavim=bavi vratim=vrati "
        "dijelim=dijeli platim=plati kupim=kupi završim=završi pokušavam=pokušava razumijem=razumije smijem=smije "
        "idem=ide pišem=piše kažem=kaže jedem=jede pijem=pije dajem=daje predajem=predaje čujem=čuje "
        "brinem=brine krenem=krene pokrenem=pokrene šaljem=šalje radimo=radi "
        f"mog=njezinog mom=njezinom{_HR_POSSESSIVES}"
    ),
    _set(
        "tebe tebi tobom tvoj tvoja tvoje tvoji tvoju tvojeg tvojem tvojim vi vas vam vama vaš vaša vaše vaši vašu vašeg "
        "vašem vašim vaših imate trebate možete želite morate provjerite spremite napravite koristite pokrenite pogledajte "
        "povećajte izvozite ste biste ćete niste stavite napišite uvedite postavite promijenite"
    ),
    Endings(
        _pairs("ujem=uje am=a imo=i amo=a emo=e iš=i aš=a eš=e ajte ujte ijte"),
        _set(
            "program samo tamo ovamo kamo onamo nikamo nekamo stream gram kilogram telegram dijagram histogram instagram "
            "spam islam vijetnam amsterdam webcam reklam team naš baš demo memo ultimo primo tomaš"
        ),
    ),
)
_EN = Grammar(
    _set("person person's user user's they their them she he her his"),
    _pairs(
        "i=they i'm=they_are i've=they_have i'd=they_would i'll=they_will me=them my=their mine=theirs myself=themselves "
        "we=they we're=they_are we've=they_have we'd=they_would we'll=they_will us=them our=their ours=theirs "
        "ourselves=themselves am=are"
    ),
    _set("you your yours yourself yourselves you're you've you'd you'll let's"),
    polished=((re.compile(r"\b([Tt]hey) was\b"), r"\1 were"), (re.compile(r"\b([Tt]hey) has\b"), r"\1 have")),
)
_DE_ENDS = ("", "e", "em", "en", "er", "es")
_DE = Grammar(
    _set("person nutzer nutzerin benutzer benutzerin sie er"),
    _pairs(
        # "sie lerne" is good reported speech, so of the verbs only these show the first person
        "ich=sie mich=sie mir=ihr wir=sie uns=ihr bin=ist hab=hat "
        + " ".join(f"mein{end}=ihr{end} unser{end}=ihr{end}" for end in _DE_ENDS)
        + " unsere=ihre unserem=ihrem unseren=ihren"
    ),
    frozenset(
        ["du", "dich", "dir", "euch", *(f"{stem}{end}" for stem in ("dein", "euer") for end in _DE_ENDS), "eure"]
    ),
    polite=_set("Sie Ihnen Ihr Ihre Ihrem Ihren Ihrer Ihres"),
)
_FR = Grammar(
    _set("personne utilisateur utilisatrice elle il"),
    _pairs(
        "je=elle moi=elle me=lui mon=son ma=sa mes=ses notre=son nos=ses nous=elle j'ai=elle_a suis=est j'étais=elle_était "
        "j'aime=elle_aime j'utilise=elle_utilise j'habite=elle_habite j'essaie=elle_essaie j'apprends=elle_apprend "
        "j'ajoute=elle_ajoute j'enseigne=elle_enseigne vais=va peux=peut veux=veut fais=fait dois=doit sais=sait "
        "viens=vient apprends=apprend écris=écrit avons=a utilisons=utilise voulons=veut sommes=est mien mienne"
    ),
    _set("tu te toi ton ta tes vous votre vos es t'es t'as voulez avez pouvez devez vérifiez"),
    elided=frozenset("jmt"),
    polished=(
        (re.compile(r"\bj['’](?=\w)", re.IGNORECASE), "elle "),
        (re.compile(r"\bque (?=elle|il)\b"), "qu'"),
    ),
)
_ES = Grammar(
    _set("persona usuario usuaria ella él su sus"),
    _pairs(
        "yo=ella mí=ella me=le mi=su mis=sus mío=suyo mía=suya nos=le nosotros=ellos nuestro=su nuestra=su nuestros=sus "
        "nuestras=sus quiero=quiere tengo=tiene necesito=necesita prefiero=prefiere soy=es estoy=está puedo=puede "
        "hago=hace voy=va he=ha vivo=vive aprendo=aprende utilizo=utiliza queremos=quiere tenemos=tiene usamos=usa "
        "hemos=ha somos=es estamos=está gustaría conmigo"
    ),
    _set("tú ti te tu tus tuyo usted ustedes vosotros vuestro vuestra puedes tienes quieres debes contigo os"),
)
_IT = Grammar(
    _set("persona utente lei lui suo sua"),
    _pairs(
        "io=lei mi=le mio=suo mia=sua miei=suoi mie=sue noi=loro nostro=suo nostra=sua nostri=suoi "
        "nostre=sue ho=ha voglio=vuole posso=può devo=deve preferisco=preferisce faccio=fa vado=va sto=sta "
        "vorrei=vorrebbe abbiamo=ha siamo=è usiamo=usa vogliamo=vuole vivo=vive imparo=impara"
    ),
    _set("tu te ti tuo tua tuoi tue voi vostro vostra vostri puoi hai vuoi devi"),
)
_PT = Grammar(
    _set("pessoa usuário utilizador utilizadora ela ele seu sua"),
    _pairs(
        "eu=ela me=lhe mim=ela meu=seu minha=sua meus=seus minhas=suas nós=elas nosso=seu nossa=sua nossos=seus "
        "nossas=suas quero=quer tenho=tem preciso=precisa prefiro=prefere sou=é estou=está posso=pode faço=faz vou=vai "
        "gostaria moro=mora aprendo=aprende usamos=usa temos=tem somos=é comigo"
    ),
    _set("tu te ti teu tua teus tuas você vocês vosso vossa contigo podes tens queres"),
)
GRAMMARS: Mapping[str, Grammar] = {"en": _EN, "hr": _HR, "de": _DE, "fr": _FR, "es": _ES, "it": _IT, "pt": _PT}


def spoken(text: str, language: str | None) -> list[str]:
    """Words of `text` in the first or second person, each once. A language that is not known is taken for none."""
    grammar = GRAMMARS.get(language or "")
    if grammar is None:
        return []
    words = [found[0] for found in _WORD.finditer(text) if _is_spoken(grammar, text, found)]
    return list(dict.fromkeys(words))


def reported(text: str, language: str | None) -> str:
    """`text` with the third person where the first stood, as far as words alone allow."""
    grammar = GRAMMARS.get(language or "")
    if grammar is None:
        return text
    said = _WORD.sub(lambda found: _third(grammar, text, found), text)
    for pattern, instead in grammar.polished:
        said = pattern.sub(instead, said)
    return said


def names_someone(text: str, language: str | None) -> bool:
    """Whether `text` speaks of a person at all; True where the language is not known."""
    grammar = GRAMMARS.get(language or "")
    return grammar is None or any(_lower(word) in grammar.subjects for word in _WORD.findall(text))


def _is_spoken(grammar: Grammar, text: str, found: re.Match[str]) -> bool:
    word, within = found[0], inside(text, found.start())
    if _abbreviated(text, found):
        return False
    return grammar.third(word, within) is not None or (within and word in grammar.polite) or _elided(grammar, word)


def _elided(grammar: Grammar, word: str) -> bool:
    """Whether a pronoun has lost its vowel to the word that follows: j'ai, m'a, t'envoie."""
    return _lower(word).split("'")[0] in grammar.elided and "'" in _lower(word)


def _third(grammar: Grammar, text: str, found: re.Match[str]) -> str:
    word, within = found[0], inside(text, found.start())
    instead = grammar.third(word, within)
    if not instead or _abbreviated(text, found):
        return word
    return instead[0].upper() + instead[1:] if word[0].isupper() and not within else instead


def _lower(word: str) -> str:
    return word.lower().replace("’", "'")


def _abbreviated(text: str, found: re.Match[str]) -> bool:
    """Whether a lone letter belongs to an abbreviation such as "i.e."."""
    end = found.end()
    return len(found[0]) == 1 and text[end : end + 1] == "." and text[end + 1 : end + 2].isalpha()


def inside(text: str, place: int) -> bool:
    """Whether the word at `place` does not begin a sentence."""
    before = text[:place].rstrip(" \"'„»«“(")
    return bool(before) and before[-1] not in ".!?:…\n"
