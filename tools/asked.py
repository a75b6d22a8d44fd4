"""A model may keep something unasked, keep a sentence of its own, or turn one round. What may be kept is decided here,
by the person's turn alone and whatever the model means: they asked to keep it, in these words, with this yes or no.

The lists are of forms, not of grammar. A turn in a language that is not in them asks for nothing; the person can still
keep things themselves. Where a turn can be read two ways, nothing is kept.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

import regex

NOT_ASKED = "The person did not ask to keep anything. Answer without this tool."
NOT_THEIR_WORDS = "Keep only what the person asked to keep, in their own words. Copy their words exactly."
TURNED_ROUND = "Your text says the opposite of what the person said. Keep yes and no, and the order, as they said it."

_OWN_WORDS_SHARE = 0.8
_OWN_PAIRS_SHARE = 0.9  # of neighbouring characters, where a script has no spaces
_FLAGS = regex.IGNORECASE | regex.VERSION1

# -- asking ------------------------------------------------------------------------------------------------------------

_ENGLISH_BEFORE = (
    r"^\W*|[,;:–—-]\s*(?<!\b(?:says|said|reads|todo|note)\W{1,4})|"
    r"\b(?:please|pls|and|also|then|now|so|ok|okay|hey|hi|hello|just|kindly|but|thanks|let's|important to|"
    r"sure you|sure to|"
    r"(?:can|could|would|will|should|must|might) you(?: please| also| just)?|you (?:should|must|need to|have to)|"
    r"(?:want|need|like|ask|asking|wish|expect|love) you to(?: please| also| always)?)\s+"
)
_ENGLISH = (
    r"remember(?! me\b| when\b)|memori[sz]e|(?:take |make )(?:a )?note|note(?: down)?(?=\s*:|\s+(?:that|this|"
    r"down|i|i'm|my|we|our|the)\b)|"
    r"(?:keep|bear) (?:it |this |that )?in mind|jot (?:it |this |that )?down|"
    r"(?:save|store|keep|record|add)(?=\s*:|\s+(?:that (?:i|i'm|my|we|our)\b|(?:this|that|it)\s*(?:$|[:.,!])|"
    r"[^.?!]{0,80}\b"
    r"(?:(?:in|to|into) (?:your |the )?(?:memory|notes)|for (?:later|next time|future)|as a (?:preference|fact|"
    r"note))\b))"
)
_ENGLISH_ANYWHERE = r"(?:(?:do not|don't|dont|never) forget(?! to\b)|from now on|going forward|for future reference)"

# Imperatives, a line a language: hr/bs/sr, sl, de, nl, sv/da/nb, fr, es, it, pt, ro, pl, cs/sk, ru, uk, bg/mk, el, hu,
# fi, et, lv/lt, tr, id/ms, vi, sw, tl.
_FORMS = r"""
zapamti(?:te)?|upamti(?:te)?|pamti(?:te)?|zabilje[žz]i(?:te)?|zabele[žz]i(?:te)?|imaj(?:te)? (?:to )?na umu
ne zaboravi(?:te)?(?! \w+ti\b)|spremi(?:te)? (?:da|to|u pam)|sa[čc]uvaj(?:te)? (?:da|to|u pam)
zapi[šs]i(?:te)? (?:da|to|si)|od sada?(?: nadalje)?|ubudu[ćc]e
запамти(?:те)?|упамти(?:те)?|забележи(?:те)?|имај(?:те)? на уму|не заборави(?:те)?|сачувај(?:те)? да|запиши(?:те)?
убудуће
zapomni(?:te)? si|ne pozabi(?:te)?|zabele[žz]i(?:te)?|zapi[šs]i(?:te)? si|imej(?:te)? v mislih|odslej
merke? (?:dir|es dir|dir das)|merken sie sich|notiere?(?: dir| bitte)?|notieren sie|denke? (?:bitte )?daran
vergiss (?:bitte )?nicht|vergessen sie nicht|behalte? (?:bitte )?(?:im kopf|in erinnerung)|erinnere? dich daran
speichere?(?:,| dir| bitte,?) dass|ab jetzt|von nun an|in zukunft
onthoud(?:en)?|noteer|vergeet niet|hou(?:d)? (?:er rekening mee|in gedachten)|sla op dat|vanaf nu
kom ih[åa]g|notera|gl[öo]m inte|l[äa]gg p[åa] minnet|spara att|husk(?! du)|noter(?: at|e at|:)|not[ée]r|glem ikke
ikke glem|gem at|lagre at|fr[åa] n[åu] av|från och med nu|fra nu af
retiens|retenez|souviens[- ]toi|souvenez[- ]vous|rappelle[- ]toi|rappelez[- ]vous|note(?:z)? (?:bien )?(?:que|qu'|:)
n'oublie(?:z)? pas|garde(?:z)? (?:bien )?(?:en t[êe]te|en m[ée]moire|à l'esprit)|m[ée]morise(?:z)?
enregistre(?:z)? que|d[ée]sormais|dor[ée]navant
recuerda(?:me)?|recu[ée]rdalo|recuerde|acu[ée]rdate|anota|an[óo]talo|apunta|ap[úu]ntalo|ten (?:en cuenta|presente)
tenga en cuenta|no (?:te )?olvides|no olvide|guarda que|memoriza|a partir de ahora|de ahora en adelante
ricorda(?:ti|telo|lo)?|ricordi che|tieni (?:a mente|presente)|tenga a mente|non dimenticare|non scordare|annota
prendi nota|memorizza|salva che|d'ora in poi
lembr[ae](?:-se|-te| que| de que| disso|:)|anot[ae]|memoriz[ae]|guarde que|guarda que|tenha em mente|tem em mente
n[ãa]o (?:se |te )?esque[çc]as?|registr[ae] que|a partir de agora|de agora em diante
[țţt]ine minte|[țţt]ine[țţt]i minte|re[țţt]ine|noteaz[ăa]|nu uita|aminte[șşs]te-[țţt]i
de acum (?:[îi]nainte|[îi]ncolo)
zapami[ęe]taj(?:cie)?|pami[ęe]taj(?:cie)?|zanotuj|zapisz(?: sobie)?|miej na uwadze|nie zapomnij|od teraz
zapamatuj(?:te)?|pamatuj(?:te)?|poznamenej(?:te)?|zapi[šs](?:te)? si|nezapome[ňn](?:te)?|m[ěe]j(?:te)? na pam[ěe]ti
zapam[äa]taj(?:te)?|pam[äa]taj(?:te)?|zap[íi][šs](?:te)? si|nezabudni(?:te)?|maj(?:te)? na pam[äa]ti|od te[ďd]
odteraz
запомни(?:те)?|помни(?:те)?|запиши(?:те)?|не забудь(?:те)?|не забывай(?:те)?|име[йи](?:те)? в виду|учти(?:те)?
сохрани(?:те)?,? что|заметь(?:те)?|отныне|впредь
запам['ʼ’]?ятай(?:те)?|занотуй(?:те)?|не забудь(?:те)?|май(?:те)? на увазі|збережи,? що|відтепер
не забравяй(?:те)?|имай(?:те)? предвид|отбележи|не заборавај|запамети|отсега нататък
θυμήσου|θυμηθείτε|να θυμάσαι|να θυμάστε|σημείωσε|μην ξεχάσεις|μην ξεχνάς|έχε υπόψη|κράτα (?:στο μυαλό|ότι)
από εδώ και πέρα
jegyezd (?:meg|fel)|jegyezze (?:meg|fel)|eml[ée]kezz|ne felejtsd|[íi]rd fel|tartsd (?:fejben|észben)|mostant[óo]l
muista(?:kaa)?(?! ko|tko)|[äa]l[äa] unohda|(?:pane|laita|merkitse|kirjaa) muistiin|tallenna ett[äa]
t[äa]st[äa] l[äa]htien
j[äa]ta meelde|pea meeles|[äa]ra unusta|m[äa]rgi [üu]les|edaspidi
atceries|iegaum[ēe]|neaizmirsti?|[įi]simink|prisimink|nepamir[šs]k|u[žz]sira[šs]yk|turėk omenyje
(?:bunu |şunu )?hat[ıi]rla(?:y[ıi]n)?|unutma(?:y[ıi]n)?|not (?:al|et|edin|al[ıi]n)|akl[ıi]nda tut
akl[ıi]nda bulunsun|kaydet|bundan sonra|bundan b[öo]yle
ingat(?:lah)?(?: bahwa|,| ya|:| saya)|ingatlah|catat(?:lah)?|jangan lupa|simpan bahwa|mulai sekarang
h[ãa]y nh[ớơ]|nhớ (?:rằng|là|giúp|nhé|:)|ghi nhớ|ghi lại|đừng quên|lưu (?:lại|ý)|từ (?:giờ|nay) trở đi
kumbuka(?: kwamba| kuwa|:)?|usisahau
tandaan|huwag (?:mong )?kalimutan|itala
"""
# Scripts whose words run together or carry prefixes: no word boundary is asked for.
_FORMS_UNBOUND = (
    r"تذك[ّ]?ر(?:ي|وا)?(?= )|احفظ|سج[ّ]?ل|لا تنس|ضع في (?:اعتبارك|بالك)|من الآن فصاعد|"
    r"(?<!\p{L})(?:ת?זכור|ת?זכרי|זכרו|רשום|רשמי|שמור ש|אל תשכח)|מעכשיו|"
    r"به خاطر بسپار|به یاد داشته باش|یادت باش[ده]|فراموش نکن|یادداشت کن|یاد رکھ|مت بھولنا|"
    r"याद रख|नोट कर|मत भूल|ध्यान (?:में )?रख|মনে রেখ|মনে রাখ|ভুলো না|ভুলবেন না|নোট কর|நினைவில் கொள்|మర్చిపోకు|"
    r"గుర్తుంచుకో|"
    r"(?<!还|還)[记記][住得下](?!吗|嗎|了)|[请請幫帮]?[记記]一下|牢[记記]|[别別]忘|不要忘|[备備]忘|从现在起|"
    r"從現在起|以后请|"
    r"覚えて(?!い?ま(?!せ)|い?る|ない|い?な|い?た)|覚えとい|メモし(?:て|と)|記憶して(?!い)|記録して(?!い)|"
    r"忘れないで|これからは|今後は|"
    r"기억해(?!\s*[?？요]?\s*[?？])|메모해|적어 ?[둬두놔]|잊지 ?마|외워|명심해|앞으로는|"
    r"จำไว้|จดไว้|จดจำ|อย่าลืม|บันทึกว่า|จำว่า|ចងចាំ|مەبیر"
)
_ASKING = regex.compile(
    rf"(?:(?:{_ENGLISH_BEFORE})(?:{_ENGLISH})|\b{_ENGLISH_ANYWHERE}|"
    rf"(?<![\p{{L}}\p{{M}}'])(?:{'|'.join(_FORMS.split(chr(10))[1:-1])})(?![\p{{L}}\p{{M}}])|"
    rf"{unicodedata.normalize('NFKC', _FORMS_UNBOUND)})",
    _FLAGS,
)
# With a polite "can you", a question asks and an infinitive counts.
_POLITE = (
    r"\b(?:(?:can|could|would|will) you|mo[žz]e[šs]? li|mo[žz]ete li|ho[ćc]e[šs] li|biste li|bi li mogao|"
    r"bi li mogla|lahko|"
    r"kannst du|können sie|könntest du|könnten sie|peux-tu|tu peux|pouvez-vous|pourrais-tu|pourriez-vous|"
    r"puedes|podr[íi]as|"
    r"puede|puoi|potresti|pu[òo]|podes|poderias?|voc[êe] pode|pode|mo[żz]esz|m[óo]g[łl]by[śs]|m[ůu][žz]e[šs]|"
    r"mohl bys|"
    r"m[ôo][žz]e[šs]|можешь|можете|мог бы|могла бы|можеш|kun je|kan je|wil je|kunt u|kan du|kan ni|voitko|"
    r"po[țţt]i|pute[țţt]i|"
    r"μπορείς|bisakah|bisa kamu)\b|misin|mısın|هل يمكنك|ممكن|תוכל|क्या आप|可以|能不能|能[请請帮幫记記]|くれ|"
    r"もらえ|ください|줄래|줄 수|주실"
)
_INFINITIVES = (
    r"zapamtiti|upamtiti|zabilje[žz]iti|zabele[žz]iti|zapomniti|merken|notieren|retenir|te souvenir|"
    r"vous souvenir|noter|recordar|anotar|"
    r"ricordare|ricordarti|annotare|lembrar|anotar|zapami[ęe]ta[ćc]|zanotowa[ćc]|zapamatovat|zapam[äa]ta[ťt]|"
    r"запомнить|записать|запам['ʼ’]ятати|"
    r"onthouden|noteren|komma ih[åa]g|huske|notere|muistaa|re[țţt]ine|mengingat|θυμάσαι|σημειώσεις|hat[ıi]rlar|"
    r"not alır|कर सकते|याद रख"
)
_POLITELY = regex.compile(
    rf"(?:{_POLITE}).{{0,80}}?\b(?:{_INFINITIVES}|remember(?= that\b| this\b|:| i\b| to\b))", _FLAGS
)
_COURTESY = regex.compile(
    rf"{_POLITE}|[,\s](?:ok|okay|please|pls|molim(?: te| vas)?|mo[žz]e|u redu|bitte|ja|d'accord|vale|va bene)\W{{0,10}}$",
    _FLAGS,
)
_QUESTION = regex.compile(
    r"[?？؟՞]\W{0,10}$|[吗嗎]\W{0,10}$|ますか\W{0,10}$|^\W*(?:what|who|whom|which|why|do (?:you|i|we)|does|did|have you|are you|"
    r"[šs]to|tko|za[šs]to|sje[ćc]a[šs] li|zna[šs] li|da li|was|wer|warum|wei[ßs]t du|quoi|qui|pourquoi)\b[^:]*$",
    _FLAGS,
)
_ABOUT_MEMORY = regex.compile(r"\byou (?:still |please )?remember (?!that\b|this\b|i\b|to\b)[^?]{0,200}\?", _FLAGS)
_REFUSING_BEFORE = regex.compile(
    r"(?:\b(?:not|n't|dont|never|no need to|need not|stop|without|ne|nemoj|nemojte|nicht|nie|no|non|nu|n[ãa]o|"
    r"не|niet|inte|ikke|[äa]l[äa]|[äa]ra|ne|"
    r"μην|jangan|đừng|không|says|said|say|writes|ka[žz]e|pi[šs]e|sagt|steht|dit|[ée]crit|dice|diz|m[óo]wi|"
    r"[řr][íi]k[áa]|говорит|пишет|zegt)"
    r"(?:\s+[\p{L}']+){0,2}\W{0,6}|(?:不要|[别別]|不用|לא|אל|لا|मत)\s*)$",
    _FLAGS,
)
_WORK_ON = regex.compile(
    r"\b(?:translate|summari[sz]e|rewrite|rephrase|paraphrase|proofread|write|draft|prevedi(?:te)?|"
    r"sa[žz]mi(?:te)?|napi[šs]i(?:te)?|"
    r"prepri[čc]aj|übersetze?|schreibe?|fasse|traduis|traduisez|r[ée]sume[zr]?|[ée]cris|[ée]crivez|traduce|"
    r"traduzca|resume|escribe|traduci|riassumi|"
    r"scrivi|traduz|traduza|resuma|escreva|przet[łl]umacz|napisz|p[řr]elo[žz]|napi[šs]|переведи|переклади|"
    r"напиши|vertaal|schrijf|"
    r"[öo]vers[äa]tt|overs[ae]tt?|oversett|k[äa][äa]nn[äa]|ford[íi]tsd|traduce[țţt]i|çevir)\b[^:\n]{0,80}:"
    r"|翻[译譯訳][^:\n]{0,20}:",
    _FLAGS,
)
_REFUSING_AFTER = regex.compile(r"^\s*(?:das |es |that |this |it )?(?:nicht|not|niet|inte|ikke)\b", _FLAGS)
_CONTRACTED = regex.compile(r"\b(\p{L}+)n't\b", _FLAGS)
_WHOLE = {"ca": "can", "wo": "will", "sha": "shall"}
_THAT = regex.compile(
    r"^[\s,:;–—-]*(?:please\b|molim(?: te| vas)?\b|bitte\b|for me\b)?[\s,:;–—-]*(?:si|sich|se|mi)?\s*(?:that|"
    r"da|dass|daß|que|che|że|ze|že|[šs]to|"
    r"что|що|че|ότι|dat|att|at|hogy|ett[äa]|că|ki|bahwa|rằng|là|أن|أنني|אני|ש|که|कि|যে|了)?[\s,:]*",
    _FLAGS,
)

# -- sentences and words -------------------------------------------------------------------------------------------------

_NOT_SPEECH = regex.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|^[ \t]*(?:>|//|#).*$", regex.DOTALL | regex.MULTILINE)
_QUOTES = regex.compile(r"[\"“„«「『][^\"”“»」』\n]{0,400}[\"”“»」』]")
_PARAGRAPH_END = regex.compile(r"\n\s*\n")
_SENTENCE_END = regex.compile(
    r"(?<=[.!?…][\"'”»)]?)(?<!\b(?:e\.g|i\.e|etc|vs|mr|mrs|ms|dr|st|npr|tj|itd|sv|ul|br|z\.\s?b|bzw|ca|cca|np|"
    r"tzv|str|approx|no)\.)"
    r"(?<!\b\p{Nd}+\.)\s+(?=[^\p{Ll}])|(?<=[。！？।])\s*|\n+",
    _FLAGS & ~regex.IGNORECASE,
)
_GOES_ON = regex.compile(
    r"^\W*(?:and|also|plus|i|te|tako[đd]er|tako[đd]e|isto|und|auch|et|aussi|y|tambi[ée]n|e|anche|tamb[ée]m|"
    r"oraz|te[żz]|a tak[żz]e|tak[ée]|и|также|"
    r"та|en|ook|och|og|还有|還有|また)\b",
    _FLAGS,
)
_WORD = regex.compile(
    r"(?<![\p{L}\p{N}])-\p{Nd}[\p{Nd}.,:/]*(?<=\p{Nd})|[\p{L}\p{M}\p{N}]+(?:(?<=\p{Nd})[.,:/-]\p{Nd}+)*[+#]*"
)
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]+")
_TELLING = regex.compile(r"[\p{Han}\p{Katakana}]")
_GLUE_UNSPACED = regex.compile(
    r"这个人|這個人|用户|用戶|使用者|本人|此人|[他她我您你]|ユーザー|その人|この人|私|僕|俺|ผู้ใช้|ฉัน|ผม|"
    r"ดิฉัน|เขา|[的了是很不]|没有|没|です|だ|は|が|を|と"
)
# What a sentence in the third person needs besides the person's words, a block a language: "ten" is one in Polish alone.
_NAY_WORDS = "never dont doesnt didnt cant isnt s m re ve ll d t nikad nikada nigdy nunca jamais geen inte ikke nem değil никогда"
_NAYS = frozenset(_NAY_WORDS.split())
_GLUE_WORDS = """
    a an the i im me my mine myself we us our you your he she they them his her their it its this that these
    those person people user users someone s is are am was were be been being do does did has have had having
    will would should can to of in on at for with by from as and or not no please always who which there about
    prefer prefers preferred preference like likes liked love loves want wants wish wishes enjoy enjoys favor
    favors
    |
    osoba osobe osobi osobu korisnik korisnika korisniku korisnica korisnice ja ti on ona ono oni moj moja
    moje moji mojoj mojem mom njegov njegova njegovo njezin njezina njezino njihov njen njena mi mu joj je sam
    si su se smo ste bi bih da ne ni i u na s sa za od do o po kod koji koja koje što sto nije nisam ima imam
    voli volim vole preferira preferiram želi želim zeli zelim radije
    |
    лице особа корисник он она ја ми му њој је сам се да и у на за са не воли волим има имам
    |
    oseba uporabnik rad rada ima je sem ne v na in z s se da
    |
    der die das ein eine einen einem einer person nutzer nutzerin benutzer er sie ich mich mir mein meine
    meinen meiner sein seine ihr ihre ist sind bin hat habe haben wird und oder in im am an auf mit von zu
    nicht kein mag mögen möchte bevorzugt bevorzuge gern gerne lieber
    |
    le la les l un une des du de d en et ou à au aux il elle je j moi mon ma mes son sa ses se s est suis a ai
    personne utilisateur utilisatrice aime préfère veut ne n pas que qu
    |
    el los las una unos él ella yo mi mis su sus es soy está tiene tengo persona usuario usuaria le me gusta
    prefiere prefiero quiere quiero y o no que con en por para al
    |
    lo gli i uno lui lei io mio mia miei sua suo è sono ha ho utente piace preferisce preferisco vuole voglio
    e non che di a da il
    |
    o os as um uma ele ela eu meu minha seu sua é sou tem tenho usuário usuária pessoa utilizador gosta gosto
    prefere prefiro quer quero não no na
    |
    użytkownik ona ten ta to mój moja moje jego jej jest jestem ma mam lubi lubię woli wolę chce chcę i w na z
    do nie się że
    |
    uživatel užívateľ používateľ člověk já můj má mám rád ráda je jsem som preferuje chce v na a se si ne
    |
    пользователь человек он она я мой моя моё мне у его её есть любит люблю нравится предпочитает предпочитаю
    хочет хочу и в на с не что
    |
    користувач людина він вона я мій моя любить люблю є і в у на не що
    |
    de het een gebruiker persoon hij zij ze ik mijn zijn haar is ben heeft heb houdt hou van wil en of in op
    met niet geen
    |
    användaren personen han hon jag min mitt mina hans hennes är har gillar föredrar vill och i på med inte
    att
    |
    brugeren brukeren jeg hun er har liker kan lide foretrækker foretrekker vil og i på med ikke at
    |
    käyttäjä henkilö hän minä minun on ei että ja pitää pidän haluaa
    |
    a az ő én felhasználó személy van nem és hogy szeret szeretem szereti
    |
    utilizatorul persoana el ea eu meu mea este sunt are am îi place îmi preferă prefer vrea vreau și în nu că
    |
    kullanıcı kişi o ben benim onun var ve bir sever severim seviyor tercih eder ediyor ister
    |
    χρήστης άτομο αυτός αυτή εγώ μου του της είναι είμαι έχει έχω ο η το τα οι και να σε με δεν αρέσει
    |
    المستخدم الشخص هو هي أنا لديه يحب أحب يفضل أفضل المستخدمة
    |
    המשתמש האדם הוא היא אני אוהב אוהבת מעדיף מעדיפה לא את של
    |
    उपयोगकर्ता व्यक्ति को मुझे मैं मेरा मेरी उसे वह है हैं हूँ हूं पसंद का की के में से नहीं और
    |
    사용자는 사용자가 그는 그녀는 나는 저는 내 제
    |
    người dùng tôi anh cô ấy là của thích không và
    |
    pengguna orang saya dia ia adalah suka menyukai lebih tidak dan yang di
"""
_GLUE = [frozenset(unicodedata.normalize("NFKC", words).split()) for words in _GLUE_WORDS.split("|")]

# -- yes and no ----------------------------------------------------------------------------------------------------------

_NO = regex.compile(
    r"\b(?:no|not|never|rarely|seldom|hardly|barely|rijetko|selten|rarement|raramente|rara vez|rzadko|"
    r"z[řr][íi]dka|редко|рідко|zelden|s[äa]llan|none|nothing|nobody|neither|nor|cannot|\w+n't|dont|doesnt|"
    r"didnt|cant|wont|isnt|arent|stop(?:ped|s)?|quit|"
    r"ne|nije|nisam|nismo|nisu|nema|nemam|nemaju|nemoj|ne[ćc]u|ne[ćc]e|nikada?|ni[šs]ta|nitko|niti|presta(?:o|"
    r"la|jem)|ni|nisem|nimam|ni[čc]|"
    r"nicht|nichts|nie|niemals|kein\w{0,2}|niet|geen|nooit|inte|aldrig|ingen|inga|ikke|aldri|ne|n(?=')|jamais|"
    r"rien|aucune?|"
    r"non|nunca|nada|jam[áa]s|niente|nessun\w?|n[ãa]o|nem|nici|nu|nigdy|nic|nejsem|nejím|nem[áa]\w?|"
    r"nech[ci]\w*|nerad\w?|nikdy|"
    r"не|нет|нету|ні|немає|нема|немам|нисам|није|никогда|никад|ніколи|нищо|ничего|няма|δεν|δε|μη|μην|ποτέ|"
    r"en|et|ei|eivät|emme|älä|nem|nincs|soha|sose|değil\w*|yok|hayır|hiç|asla|tidak|bukan|jangan|không|chưa|chẳng|"
    r"لا|ليس|ليست|لم|لن|غير|ما|לא|אין|אף|नहीं|मत|न|نہیں|না|নেই|نیست|نمی\w*)\b|"
    r"\b(?:je|j'\w*|tu|il|elle|on|c'est)\b.{0,80}?\bpas\b|不|没|沒|[无無別别]|ない|ません|なく|ず(?:に|$)|안\s|않|못|"
    r"없|아니|ไม่|มิ|"
    r"\bnej\p{L}{3,}|\b\p{L}+m[ae](?:m|z|yor\w*|di\w*)\b(?=\W{0,10}$)",
    _FLAGS,
)
_HATES = (
    r"\b(?:hat(?:e|es|ed)|dislik\w*|avoid\w*|detest\w*|mrzi\w*|izbjegava\w*|hass\w*|vermeid\w*|d[ée]test\w*|"
    r"[ée]vit\w*|odi[ao]\w*|odei\w*|"
    r"evit\w*|nienawidz\w*|unika\w*|nesn[áa][šs]\w*|ненави\w*|мрзи\w*|hat(?:ar|er)|undvik\w*|vihaa\w*|utál\w*|"
    r"nefret)\b|讨厌|討厭|嫌い|싫어|เกลียด"
)
_HATING = regex.compile(_HATES, _FLAGS)
_DISLIKES = regex.compile(rf"{_HATES}|\b(?:allerg|alerg|аллерг|алерг)\w*", _FLAGS)
# A new part begins: one that is denied or set aside (without, rather than), one that is affirmed again (but).
_ASIDE = (
    r"\bto\b(?<=\bprefer\w{0,4}\s+(?!to\b)[^.,;!?]{1,60}\sto)|\b(?:without|unlike|instead of|rather than|over|than|"
    r"except|unless|bez|umjesto|umesto|osim|nego|ohne|statt|anstatt|au[ßs]er|sans|plut[ôo]t qu\w*|"
    r"au lieu de|sauf|sin|en lugar de|en vez de|excepto|senza|invece di|piuttosto che|tranne|sem|em vez de|"
    r"ao inv[ée]s|exceto|zamiast|"
    r"opr[óo]cz|ni[żz]|ne[žz]|m[íi]sto|krom[ěe]|без|вместо|чем|кроме|ніж|замість|zonder|in plaats van|utan|"
    r"i st[äa]llet f[öo]r|uten|uden|"
    r"ilman|helyett|n[ée]lk[üu]l|f[ăa]r[ăa]|[îi]n loc de|yerine|χωρίς|αντί)\b|(?<=,\s*)(?:not|ne|nicht|no|non|"
    r"pas|n[ãa]o|nie|не|niet|inte|ikke)\b"
)
_AGAIN = (
    r"\b(?:but|however|though|ali|već|aber|sondern|pero|sino|ale|но|але|maar|men|mutta|hanem|ama)\b|"
    r"(?<=,\s*)(?:and )?(?:mais|ma|mas|dar|i|i'm|my|we|ja|moj\w?|ich|mein\w*|je|mon|yo|eu|io|я|мой)\b|"
    r"(?<=[,，、]\s*)(?:但|而|でも)|[;；]|"
    r"\b(?:and|i|und|et|y|e|и)\s+(?=(?:like|love|prefer|enjoy|hate|dislike|avoid|voli|mrzi|lieb|mag|hass|aim|"
    r"d[ée]test|odi[ao]|ador|люб|ненав)\w*)"
)
_PARTS = regex.compile(rf"(?P<aside>{_ASIDE})|(?P<again>{_AGAIN})", _FLAGS)
_OWNED = regex.compile(
    r"^\W*(?:my|our|his|her|moj[aei]?|moji|na[šs]a?|mein[e]?|unsere?|mon|ma|mes|notre|mi|mis|nuestr[oa]|(?:il |"
    r"la )?mi[oa]|(?:o |a )?(?:meu|minha)|"
    r"m[óo]j|moja|m[ůu]j|мой|моя|моё|моја|мој|mijn|min|mitt)\s+(?P<what>[\p{L}\p{M}]+(?:\s+[\p{L}\p{M}]+)?)",
    _FLAGS,
)


@dataclass(frozen=True)
class _Part:
    """A stretch of a sentence in which one yes or no holds."""

    words: tuple[str, ...]
    denied: bool


def fault(text: str, said: str) -> str | None:
    """Why `text` may not be kept in a turn in which the person said `said`, in a sentence for the model; None if it may."""
    said, text = _even(said), _even(text)
    asked = _asked(said)
    if not asked:
        return NOT_ASKED
    theirs = " ".join(asked)
    if not _own_words(text, theirs):
        return NOT_THEIR_WORDS
    return None if _same_sense(text, asked) else TURNED_ROUND


def restates(text: str, shown: Collection[str], said: str = "") -> bool:
    """Whether `text` only repeats an entry that recall showed, and not what the person said in this turn."""
    text, said = _even(text), _even(said)
    if _within(text, said):
        return False
    return any(
        _WORD.findall(text.casefold()) == _WORD.findall(entry.casefold()) or _within(text, entry)
        for entry in map(_even, shown)
    )


def _within(text: str, whole: str) -> bool:
    """Whether all that `text` says stands in `whole`."""
    words, unspaced = _content(text), _UNSPACED.findall(text)
    if not words and not unspaced:
        return False
    return _all_in(words, _words(whole)) and (not unspaced or _own_characters(unspaced, whole))


def _even(text: str) -> str:
    """One form for letters, apostrophes, digits and "not"; nothing invisible."""
    text = "".join(_even_char(char) for char in unicodedata.normalize("NFKC", text))
    return _CONTRACTED.sub(lambda found: f"{_WHOLE.get(found[1].lower(), found[1])} not", text)


def _even_char(char: str) -> str:
    category = unicodedata.category(char)
    if category in ("Cf", "Cs"):
        return ""
    if char in "’ʼ":
        return "'"
    return str(unicodedata.decimal(char)) if category == "Nd" else char


# -- what was asked ------------------------------------------------------------------------------------------------------


def _asked(said: str) -> list[str]:
    """The sentences that the person asked to keep, without the asking itself."""
    sentences = list(_sentences(said))
    wanted: dict[int, str] = {}
    for place, sentence in enumerate(sentences):
        if (rest := _rest_of_asking(sentence)) is not None:
            wanted[place] = rest
            wanted.update(_meant_with(place, rest, sentences))
        elif place - 1 in wanted and _GOES_ON.match(sentence) and not _QUESTION.search(sentence):
            wanted[place] = sentence
    return [wanted[place] for place in sorted(wanted) if wanted[place].strip()]


def _sentences(said: str) -> Iterator[str]:
    """What the person says themselves: no code, no quoted lines, nothing that is to be translated or written."""
    material = False
    for paragraph in _PARAGRAPH_END.split(_NOT_SPEECH.sub("\n\n\N{OBJECT REPLACEMENT CHARACTER}\n\n", said)):
        for sentence in _SENTENCE_END.split(paragraph):
            if sentence and sentence.strip() and not material:
                yield sentence
            material = material or bool(sentence and _WORK_ON.search(sentence))
        material = material and paragraph.rstrip().endswith(":")


def _rest_of_asking(sentence: str) -> str | None:
    """The sentence without its asking phrase; None where it does not ask to keep anything."""
    speech = _QUOTES.sub(lambda quoted: "\N{REPLACEMENT CHARACTER}" * len(quoted[0]), sentence)
    asking = _POLITELY.search(speech)
    if not asking and (not _QUESTION.search(speech) or _COURTESY.search(speech)):
        asking = _ASKING.search(speech)
    if (
        not asking
        or _ABOUT_MEMORY.search(speech)
        or _WORK_ON.search(speech[: asking.end()])
        or _REFUSING_BEFORE.search(speech[: asking.start()])
        or _REFUSING_AFTER.match(speech[asking.end() :])
    ):
        return None
    return f"{sentence[: asking.start()]} {_THAT.sub('', sentence[asking.end() :])}".strip()


def _meant_with(place: int, rest: str, sentences: list[str]) -> dict[int, str]:
    """What else is meant where the asking says nothing itself ("Remember this."): what stands before, or else after."""
    if len(_content(rest)) > 1 or (_UNSPACED.search(rest) and len(rest) > 4):
        return {}
    if rest.rstrip().endswith(":") or place == 0 or sentences[place].rstrip().endswith(":"):
        return {later: one for later, one in enumerate(sentences) if later > place and not _QUESTION.search(one)}
    return {place - 1: sentences[place - 1]} if not _QUESTION.search(sentences[place - 1]) else {}


# -- whose words ---------------------------------------------------------------------------------------------------------


def _own_words(text: str, theirs: str) -> bool:
    """Whether the words of `text` are the person's: all numbers, and nearly all the rest, with no word exchanged."""
    if _HATING.search(theirs):
        text = _HATING.sub(" ", text)  # one such word is as good as another
    words, said = _content(text), _words(theirs)
    unspaced = _UNSPACED.findall(text)
    if not words and not unspaced:
        return bool(_words(text)) and _all_in(_words(text), said)
    if unspaced and not _own_characters(unspaced, theirs):
        return False
    strange = [word for word in words if not _is_in(word, said)]
    if any(map(_has_digit, strange)) or len(strange) > (1 - _OWN_WORDS_SHARE) * len(words) + 1e-9:
        return False
    return not strange or _all_in(_content(theirs), _words(text))


def _own_characters(unspaced: list[str], theirs: str) -> bool:
    """The same for scripts without spaces: neighbouring characters stand for words."""
    runs = [run for piece in unspaced for run in _GLUE_UNSPACED.split(piece) if run]
    pairs = [run[place : place + 2] for run in runs for place in range(max(1, len(run) - 1))]
    telling = all(char in theirs for run in runs for char in _TELLING.findall(run))
    return telling and bool(pairs) and sum(pair in theirs for pair in pairs) >= _OWN_PAIRS_SHARE * len(pairs)


def _words(text: str) -> list[str]:
    return _WORD.findall(_UNSPACED.sub(" ", text.casefold()))


def _content(text: str) -> list[str]:
    """The words without the glue of the language that most of it belongs to."""
    words = _words(text)
    counts = [sum(word in glue for word in words) for glue in _GLUE]
    glue = _NAYS.union(*(glue for glue, count in zip(_GLUE, counts, strict=True) if count and count == max(counts)))
    return [word for word in words if word not in glue]


def _all_in(words: Collection[str], said: Collection[str]) -> bool:
    return all(_is_in(word, said) for word in words)


def _is_in(word: str, said: Collection[str]) -> bool:
    return word in said or any(other.startswith(word[:3]) and _same_stem(word, other) for other in said)


def _same_stem(one: str, other: str) -> bool:
    """Whether two words may be forms of one: "lives" and "live", "Zagrebu" and "Zagreb"; never numbers."""
    if _has_digit(one + other) or (one + other).endswith(("+", "#")) or "#" in one + other or "+" in one + other:
        return False
    shared = next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    shared = min(len(one), len(other)) if shared is None else shared
    ends = len(one) + len(other) - 2 * shared
    if shared <= 4:
        return shared >= 3 and ends <= 2 * (shared - 2)
    return shared >= 0.6 * max(len(one), len(other))


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


# -- yes or no -----------------------------------------------------------------------------------------------------------


def _same_sense(text: str, asked: list[str]) -> bool:
    """Whether each part of `text` is denied or affirmed as the part of the turn that it comes from."""
    theirs = [part for sentence in asked for part in _parts(sentence)]
    return all(_agrees(part, theirs) for part in _parts(text)) and _same_owner(text, asked)


def _agrees(part: _Part, theirs: list[_Part]) -> bool:
    """Each word stands in a part of the same sense; the nearest part, by words shared, is of the same sense."""
    same = [word for one in theirs if one.denied == part.denied for word in one.words]
    known = [word for one in theirs for word in one.words]
    if any(_is_in(word, known) and not _is_in(word, same) for word in part.words):
        return False
    shared = [sum(_is_in(word, one.words) for word in part.words) for one in theirs]
    nearest = [one for one, count in zip(theirs, shared, strict=True) if count == max(shared)]
    return not part.words or any(one.denied == part.denied for one in nearest)


def _parts(sentence: str) -> Iterator[_Part]:
    starts = [0, *(found.start() for found in _PARTS.finditer(sentence)), len(sentence)]
    denied_before = False
    for start, end in pairwise(starts):
        piece = sentence[start:end]
        opening = _PARTS.match(sentence, start)
        denied = (_NO.search(piece) is not None) != (_DISLIKES.search(piece) is not None)
        if opening and opening["aside"]:
            denied = not (denied_before and opening["aside"].casefold() == "nego")
        denied_before = denied_before or denied
        if words := _telling_words(piece):
            yield _Part(words, denied)


def _telling_words(piece: str) -> tuple[str, ...]:
    """The words by which a part is known again; of scripts without spaces, pairs of characters."""
    piece = _PARTS.sub(" ", _DISLIKES.sub(" ", _NO.sub(" ", piece)))
    runs = [run for found in _UNSPACED.findall(piece) for run in _GLUE_UNSPACED.split(found)]
    pairs = [run[place : place + 2] for run in runs for place in range(len(run) - 1)]
    return (*_content(piece), *pairs)


def _same_owner(text: str, asked: list[str]) -> bool:
    """ "My sister likes tea" does not say that the person does: the owner's word must be there."""
    words = _words(text)
    near = [one for one in asked if set(_telling_words(one)) & set(_telling_words(text))] or asked
    owners = [_content(found["what"]) if (found := _OWNED.match(one)) else [] for one in near]
    return any(not owner or any(_is_in(word, words) for word in owner) for owner in owners)
