"""Ready blocks: columns that need no codebook, `ready = "us-state"` and the like.

Every list is a public standard, and a table may hold less of it. Where a table may hold more, its
schema says `other = true` beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_COUNTRIES_2 = (
    "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR "
    "BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ "
    "EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW "
    "GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY "
    "KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV "
    "MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY "
    "QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG "
    "TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM "
    "ZW "
)
_COUNTRIES_3 = (
    "ABW AFG AGO AIA ALA ALB AND ARE ARG ARM ASM ATA ATF ATG AUS AUT AZE BDI BEL BEN BES BFA BGD "
    "BGR BHR BHS BIH BLM BLR BLZ BMU BOL BRA BRB BRN BTN BVT BWA CAF CAN CCK CHE CHL CHN CIV CMR "
    "COD COG COK COL COM CPV CRI CUB CUW CXR CYM CYP CZE DEU DJI DMA DNK DOM DZA ECU EGY ERI ESH "
    "ESP EST ETH FIN FJI FLK FRA FRO FSM GAB GBR GEO GGY GHA GIB GIN GLP GMB GNB GNQ GRC GRD GRL "
    "GTM GUF GUM GUY HKG HMD HND HRV HTI HUN IDN IMN IND IOT IRL IRN IRQ ISL ISR ITA JAM JEY JOR "
    "JPN KAZ KEN KGZ KHM KIR KNA KOR KWT LAO LBN LBR LBY LCA LIE LKA LSO LTU LUX LVA MAC MAF MAR "
    "MCO MDA MDG MDV MEX MHL MKD MLI MLT MMR MNE MNG MNP MOZ MRT MSR MTQ MUS MWI MYS MYT NAM NCL "
    "NER NFK NGA NIC NIU NLD NOR NPL NRU NZL OMN PAK PAN PCN PER PHL PLW PNG POL PRI PRK PRT PRY "
    "PSE PYF QAT REU ROU RUS RWA SAU SDN SEN SGP SGS SHN SJM SLB SLE SLV SMR SOM SPM SRB SSD STP "
    "SUR SVK SVN SWE SWZ SXM SYC SYR TCA TCD TGO THA TJK TKL TKM TLS TON TTO TUN TUR TUV TWN TZA "
    "UGA UKR UMI URY USA UZB VAT VCT VEN VGB VIR VNM VUT WLF WSM YEM ZAF ZMB ZWE "
)
_STATES = (
    "AK AL AR AZ CA CO CT DC DE FL GA HI IA ID IL IN KS KY LA MA MD ME MI MN MO MS MT NC ND NE NH "
    "NJ NM NV NY OH OK OR PA RI SC SD TN TX UT VA VT WA WI WV WY "
)
_CHAPTERS = "I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX XXI XXII"
_CHAPTER_CODES = (
    "A00-B99 C00-D48 D50-D89 E00-E90 F00-F99 G00-G99 H00-H59 H60-H95 I00-I99 J00-J99 K00-K93 "
    "L00-L99 M00-M99 N00-N99 O00-O99 P00-P96 Q00-Q99 R00-R99 S00-T98 V01-Y98 Z00-Z99 U00-U99 "
)


def _whole(minimum: int, maximum: int, source: str, **more: Any) -> dict[str, Any]:
    bounds = {"type": "integer", "minimum": minimum, "maximum": maximum}
    return {**bounds, "source": source, **more}


def _listed(values: str, source: str) -> dict[str, Any]:
    return {"type": "string", "enum": values.split(), "source": source}


READY: Mapping[str, Mapping[str, Any]] = {
    "age": _whole(0, 120, "years of age", clamp=True),
    "age-band": {
        "type": "integer",
        "edges": [*range(0, 90, 5), 90, 120],
        "clamp": True,
        "source": "years of age, in fives up to 90",
    },
    "year": _whole(1900, 2099, "years of the calendar"),
    "month": _whole(1, 12, "months of the calendar"),
    "country": _listed(_COUNTRIES_2, "ISO 3166-1, two letters"),
    "country-3": _listed(_COUNTRIES_3, "ISO 3166-1, three letters"),
    "us-state": _listed(_STATES, "US states and the District of Columbia, postal codes"),
    "icd10-chapter": _listed(_CHAPTERS, "ICD-10 chapters, by number"),
    "icd10-chapter-codes": _listed(_CHAPTER_CODES, "ICD-10 chapters, by first and last code"),
}
"""The fields of each block."""
