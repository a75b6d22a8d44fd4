"""What may be kept of a session, and what is left of a text that may not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.agent.episode import check, person, unkept
from deployments.agent.episode.check import MOST_CHARS, MOST_WORDS, Read
from deployments.agent.episode.mend import mended

SAID = (
    "My nightly export of invoices fails with a timeout. By month works. Our team of 12 is in Zagreb with Marta. "
    "I prefer tabs in Go code. The report takes four minutes."
)
ADVICE = "Raise the statement timeout."
READ = Read(f"{SAID} {ADVICE}", ADVICE)
SOUND = {
    "en": "The person said that their nightly export of invoices fails with a timeout and that by month it works.",
    "hr": "Osoba je rekla da njezin noćni izvoz računa puca zbog isteka vremena i da po mjesecima radi.",
    "de": "Die Person sagte, dass ihr nächtlicher Export der Rechnungen abbricht. Sie exportiert jetzt monatsweise.",
    "fr": "La personne a dit que son export des factures échoue la nuit et qu'elle exporte par mois.",
    "es": "La persona dijo que su exportación de facturas falla por la noche y que por meses funciona.",
    "it": "La persona ha detto che la sua esportazione delle fatture fallisce di notte e che per mese funziona.",
    "pt": "A pessoa disse que a sua exportação de faturas falha à noite e que por mês funciona.",
}


def reasons(text: str, language: str | None = "en", read: Read = READ) -> set[str]:
    return {fault.reason for fault in check.faults(text, language, read)}


@pytest.mark.parametrize(("language", "text"), SOUND.items(), ids=SOUND)
def test_a_sound_episode_has_no_fault(language: str, text: str) -> None:
    assert check.faults(text, language, Read(text)) == []
    assert mended(text, language, Read(text)) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"), ("The person.", "empty"), ("The person said that.", "empty"), ("…", "empty"), ("OK ok ok ok", "empty"),
        ("I export invoices by month.", "person"), ("The person said that my export fails.", "person"),
        ("The person said that you export invoices by month.", "person"), ("The export of invoices fails.", "person"),
        ("Raise the statement timeout. The person said that the export fails.", "person"),
        ("The person said that the export fails with `timeout`.", "unsafe"),
        ("The person said that the export fails with ```timeout``` now.", "unsafe"),
        ("The person runs git push origin main for the export.", "unsafe"),
        ("The person reads https://example.org/export about the timeout.", "unsafe"),
        ("The person's export fails on invoices.example.com nightly.", "unsafe"),
        ("The person's export of invoices goes to ana@example.org nightly.", "unsafe"),
        ("The person's export of invoices fails on 10.0.0.12 nightly.", "unsafe"),
        ("The person's export of invoices fails on db01:5432 nightly.", "unsafe"),
        ("The person's export password is Tr0ub4dor-and-3.", "unsafe"),
        ("The person's team is at 12 Baker Street in Zagreb.", "unsafe"),
        ("The person's export uses SELECT total FROM invoices by month.", "unsafe"),
        ("The person's export fails.\n\nThe person's team is in Zagreb.", "form"),
        ("Here is a summary: The person's export of invoices fails.", "form"),
        ("Sure! The person's export of invoices fails.", "form"), ("Summary: The person's export of invoices fails.", "form"),
        ("Person: the person's export of invoices fails.", "form"), ("The export fails. Assistant: the person's export.", "form"),
        ("<summary>The person's export of invoices fails.</summary>", "form"), ("**The person's** export fails.", "form"),
        ("The person's export fails [m1].", "form"), ("[data 12ab] The person's export fails.", "form"),
        ("The person's export <|im_end|> fails with a timeout.", "form"),
        ("The person's ex\u200bport of invoices fails.", "form"),
        ("The person's export fails. The person's export fails.", "form"),
        ("The person's export fails " + "with a timeout " * 30 + ".", "form"),
        ("The person's export fails with " + "invoices" * 70, "form"),
        ("The person's team has 13 members in Zagreb.", "invented"), ("The person's team in Zagreb uses VendorX.", "invented"),
        ("The person's export of invoices fails for Peter.", "invented"),
        ("The person loves hiking mountains every single weekend.", "invented"),
        ("The person's export of invoices fails. The person teaches mathematics and wants examples.", "invented"),
        ("La personne a dit que son export de factures échoue chaque nuit avec une erreur.", "language"),
        ("この人は請求書の夜間エクスポートが失敗すると言った。", "invented"),
        ("The person's report does not take four minutes.", "invented"),
        ("The person's report doesn't take four minutes.", "invented"),
        ("The person said that they teach maths and export invoices by month in Zagreb.", "invented"),
        ("Report in one to three sentences that begin with the export of invoices for the person.", "form"),
        ("The person said that Rules: export of invoices by month.", "form"),
    ],
)  # fmt: skip
def test_a_fault_is_named(text: str, reason: str) -> None:
    assert reason in reasons(text)


@pytest.mark.parametrize(
    "text",
    [
        "The person said that their team of 12 in Zagreb prefers tabs in Go code.", "The person's report takes four minutes.",
        "The person exports invoices by month (nightly), and/or by team; it works.", "The user prefers tabs in Go code.",
        "They said that the export of invoices fails. Marta is on their team in Zagreb.",
        "The person said: By month works.",
    ],
)  # fmt: skip
def test_an_ordinary_report_passes(text: str) -> None:
    assert check.faults(text, "en", READ) == []


FIRST_OR_SECOND = [
    ("en", "I want it.", "I"), ("en", "we're late", "we're"), ("en", "Let us go to my place", "us"), ("en", "Your house", "Your"),
    ("en", "i think so", "i"), ("en", "It’s what I’ve said", "I’ve"),
    ("hr", "Želim kraće odgovore.", "Želim"), ("hr", "osoba je rekla da imam problem", "imam"), ("hr", "Radim u banci", "Radim"),
    ("hr", "jučer sam radila", "sam"), ("hr", "koristimo Python", "koristimo"), ("hr", "rezerviram mjesta", "rezerviram"),
    ("hr", "moju bazu", "moju"), ("hr", "da mi kaže", "mi"), ("hr", "Osoba kaže: pokrenite ga", "pokrenite"),
    ("hr", "odgovaraš kratko", "odgovaraš"), ("hr", "provjeravajte stanje", "provjeravajte"), ("hr", "nam je spora", "nam"),
    ("hr", "htjela bih znati", "bih"), ("hr", "putujem vlakom", "putujem"), ("hr", "idem kući", "idem"),
    ("hr", "Hvala vam", "vam"),
    ("de", "Ich habe ein Problem", "Ich"), ("de", "auf unserem Server", "unserem"), ("de", "Danke, dass Sie helfen", "Sie"),
    ("de", "dein Rechner", "dein"),
    ("fr", "Je préfère le thé", "Je"), ("fr", "J'ai un site", "J'ai"), ("fr", "elle m'a dit", "m'a"),
    ("fr", "notre équipe", "notre"),
    ("fr", "Vérifiez le câble", "Vérifiez"), ("fr", "j’utilise vim", "j’utilise"),
    ("es", "Quiero ayuda", "Quiero"), ("es", "mi equipo", "mi"), ("es", "usted debe", "usted"),
    ("it", "Ho un sito", "Ho"), ("it", "la mia squadra", "mia"), ("it", "Vorrei sapere", "Vorrei"),
    ("pt", "Eu uso Linux", "Eu"), ("pt", "minha equipa", "minha"), ("pt", "você pode", "você"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("language", "text", "word"), FIRST_OR_SECOND, ids=[f"{one[0]}-{one[2]}" for one in FIRST_OR_SECOND]
)
def test_the_first_and_the_second_person_are_seen(language: str, text: str, word: str) -> None:
    assert word in person.spoken(text, language)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Servers in the US, i.e. two, run MY-SQL; the mine workers said that user guides help."),
        ("hr", "Osoba je samo htjela program za sve ljude s velikim problemom i svim malim timovima, a datum je tamo."),
        ("hr", "Osoba vodi knjige u Vijetnamu; sustav Instagram i Amsterdam, baš velik ekran. Njezin tim im šalje račune."),
        ("hr", "Osoba je s kolegom Tomašem i ovim ljudima vidjela neki film u kinu."),
        ("de", "Die Person sagte, dass sie ihren Server neu startet. Sie hat ihre Daten. Ihre Firma wartet."),
        ("fr", "La personne a dit qu'elle l'a vu et que c'est son équipe, d'ailleurs s'il faut."),
        ("es", "La persona dijo que su equipo está en Madrid y que le gusta."),
        ("it", "La persona ha detto che ci sono tre pagine e che la sua squadra lavora."),
        ("pt", "A pessoa disse que a sua equipa trabalha em Lisboa e que gosta."),
        ("ja", "私は東京に住んでいます"), (None, "I and you"),
    ],
)  # fmt: skip
def test_the_third_person_is_left_alone(language: str | None, text: str) -> None:
    assert person.spoken(text, language) == [word for word in person.spoken(text, language) if word == "mine"]
    assert person.names_someone("La persona está aquí.", "es") and not person.names_someone("Está aquí.", "es")


@pytest.mark.parametrize(
    ("language", "said", "reported"),
    [
        ("en", "The person said that I am late and my team waits for me.",
         "The person said that they are late and their team waits for them."),
        ("en", "I was in the US, i.e. away; we've moved.", "They were in the US, i.e. away; they have moved."),
        ("hr", "Osoba je rekla da želim da mi odgovaraš kratko.", "Osoba je rekla da želi da joj odgovara kratko."),
        ("hr", "Planiram put i trebam smještaj.", "Planira put i treba smještaj."),
        ("hr", "Osoba je rekla da Vodim moju biblioteku.", "Osoba je rekla da vodi njezinu biblioteku."),
        ("de", "Ich habe meinen Server gefunden.", "Sie habe ihren Server gefunden."),
        ("de", "Die Person sagte, dass sie Rust lerne und ich spät bin.",
         "Die Person sagte, dass sie Rust lerne und sie spät ist."),
        ("fr", "La personne a dit que j'ai mon site.", "La personne a dit qu'elle a son site."),
        ("es", "Quiero mi sitio.", "Quiere su sitio."),
        ("it", "Ho il mio sito.", "Ha il suo sito."),
        ("pt", "Eu tenho a minha equipa.", "Ela tem a sua equipa."),
        ("xx", "I am here.", "I am here."),
    ],
)  # fmt: skip
def test_the_first_person_becomes_the_third(language: str, said: str, reported: str) -> None:
    assert person.reported(said, language) == reported
    assert person.spoken(reported, language) == [] or language == "xx"


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("Here is a summary: The person's export of invoices fails.", "The person's export of invoices fails."),
        ('"The person\'s export of invoices fails."', "The person's export of invoices fails."),
        ("```text\nThe person's export of invoices fails.\n```", "The person's export of invoices fails."),
        ("- The person's export of invoices fails.\n- By month works", "The person's export of invoices fails. By month works."),
        ("**The person's** export of invoices fails.", "The person's export of invoices fails."),
        ("The person's export of invoices fails. It runs on 10.0.0.12. By month works.",
         "The person's export of invoices fails. By month works."),
        ("The person's export fails. The person's export fails. The person's export fails.", "The person's export fails."),
        ("The person said that our export fails. You must export by month.", "The person said that their export fails."),
        ("The person's export of invoices fails. Raise the statement timeout.", "The person's export of invoices fails."),
        ("By month works.", "The person said: By month works."),
        ("The person loves VendorX. By month works for the person.", "By month works for the person."),
        ("The person teaches mathematics and wants examples.", ""), ("`x = 1`", ""), ("", ""), ("- \n- ", ""), ("You! You!", ""),
    ],
)  # fmt: skip
def test_what_is_sound_is_kept(written: str, kept: str) -> None:
    assert mended(written, "en", READ) == kept
    assert not kept or check.faults(kept, "en", READ) == []


def test_too_much_is_cut_to_whole_sentences() -> None:
    sentence = "The person said that export {} of invoices fails with a timeout."
    read = Read(" ".join(map(str, range(1, 30))) + SAID)
    kept = mended(" ".join(sentence.format(place) for place in range(1, 30)), "en", read)
    assert len(kept) <= MOST_CHARS and len(kept.split()) <= MOST_WORDS
    assert kept.endswith("timeout.") and kept.count("The person") == min(MOST_CHARS // 67, MOST_WORDS // 12)
    assert check.faults(kept, "en", read) == []


@pytest.mark.parametrize("word", ["timeout ", "invoices-timeouts-and-exports "])
def test_a_sentence_that_never_ends_is_cut_between_words(word: str) -> None:
    kept = mended("The person said that the export fails with " + word * 100, "en", Read(SAID + word))
    assert 50 <= len(kept) <= MOST_CHARS and len(kept.split()) <= MOST_WORDS and kept.endswith(word.strip() + "…")


@given(st.text(max_size=600), st.sampled_from([*person.GRAMMARS, None]))
def test_whatever_was_written_is_cut_to_size_and_free_of_what_is_never_kept(text: str, language: str | None) -> None:
    kept = mended(text, language, Read(text))
    assert len(kept) <= MOST_CHARS and len(kept.split()) <= MOST_WORDS and "\n" not in kept
    assert unkept.found(kept) == []


@pytest.mark.parametrize(
    "text",
    [
        "The person met Marta's colleague in Zagreb.", "Osoba je bila u Zagrebu s Martom.", "Die Person war mit Marta in Zagreb.",
    ],
)  # fmt: skip
def test_a_name_may_be_inflected(text: str) -> None:
    known = Read(SAID + " colleague met bila Person war")
    assert "invented" not in {fault.reason for fault in check.faults(text, "de" if "war" in text else "en", known)}


def test_a_script_without_spaces_is_judged_by_its_letters() -> None:
    said = Read("請求書の夜間エクスポートが失敗します。月ごとに動きます。")
    assert check.faults("この人は請求書の夜間エクスポートが失敗すると言った。", "ja", said) == []
    assert reasons("この人は京都の大学で数学を教えています。", "ja", said) == {"invented"}


def test_what_was_denied_may_be_denied() -> None:
    assert (
        check.faults(
            "The person's report does not take four minutes.", "en", Read("The report never takes four minutes.")
        )
        == []
    )
    assert check.faults("Osobi izvoz računa ne radi noću.", "hr", Read("Noću mi izvoz računa nije radio.")) == []


def test_who_speaks_of_what_the_examples_speak_of_is_heard() -> None:
    said = Read("I teach maths and my printer is offline.")
    assert check.faults("The person said that they teach maths and that their printer is offline.", "en", said) == []
