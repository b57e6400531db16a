#!/usr/bin/env python3
"""Makes item features for fedsim from Wikidata's entries on the films of MovieLens (AM-SSP paper, appendix E.1.1):
year, genre, extended genre, person and role, as bags of words. A word that occurs twice has the weight 2. It opens no
connection. First it writes queries, for so many films each:

    tools/wikidata/wikidata.py --links ml-25m/links.csv --queries queries --films 200

Give the queries to https://query.wikidata.org, for example with:

    curl -G https://query.wikidata.org/sparql -H 'Accept: text/csv' --data-urlencode query@queries/0001.rq > 0001.csv

Then it makes one CSV of all answers, in JSON or CSV as they were returned:

    tools/wikidata/wikidata.py --links ml-25m/links.csv --out wikidata.csv 0001.csv 0002.csv ...
    fedsim run --data ml-25m --algorithm am-ssp --features genres,wikidata.csv

Wikidata's content has the licence CC0.
"""
import argparse, collections, csv, io, json, pathlib, re, sys

COLUMNS = ["imdb", "category", "value", "label", "role"]  # of an answer; label and role may be missing


def imdb_id(text):
    """Writes 114709, 0114709 and tt0114709 alike: with at least seven digits behind tt."""
    digits = text.removeprefix("tt")
    if not re.fullmatch("[0-9]{1,12}", digits):
        raise ValueError(f'the IMDb id "{text}" is no number')
    return f"tt{int(digits):07d}"


def read_links(file):
    """Returns the films of a links.csv and their IMDb ids; films without an IMDb id are left out."""
    with open(file, newline="", encoding="utf-8") as f:
        rows = csv.DictReader(f, strict=True)
        if not {"movieId", "imdbId"} <= set(rows.fieldnames or ()):
            raise ValueError(f"{file}: the first line is {rows.fieldnames}; it must have movieId and imdbId")
        films = [(row["movieId"], imdb_id(row["imdbId"])) for row in rows if row["imdbId"]]
    if not films:
        raise ValueError(f"{file} has no films")
    return films


def answers(text):
    """Reads SPARQL 1.1 query results, in JSON or CSV: one thing about one film each."""
    if text.lstrip().startswith("{"):
        results = json.loads(text)
        have = results["head"]["vars"]
        rows = [{name: v["value"] for name, v in row.items()} for row in results["results"].get("bindings", [])]
    else:
        table = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
        have, rows = table.fieldnames, list(table)
        if not have:
            raise ValueError("it is empty; an answer without rows has a line of column names")
    if not set(COLUMNS[:3]) <= set(have):
        raise ValueError(f"the columns are {have}; want {COLUMNS} of the query; the last two may be missing")
    for row in rows:
        if any(row.get(name) is None for name in have) and not text.lstrip().startswith("{") or None in row:
            raise ValueError("a row has more or fewer fields than the first line")
    return [[row.get(name) or "" for name in COLUMNS] for row in rows]


def words(imdb, category, value, label, role):
    """Returns the categories and values that an answer counts. An answer with a person counts the person's role, too."""
    number = value.removeprefix("http://www.wikidata.org/entity/")
    named = f"{label} ({number})" if number != value and label else number  # with its number: names are not unique
    if not category or not named:
        raise ValueError(f'{imdb}: the category is "{category}" and the value "{named}"; neither may be empty')
    if category == "role":
        raise ValueError(f"{imdb}: roles are counted by persons; there is no category role in an answer")
    if category == "year":  # or the date that it begins
        named = value.split("-")[0]
        if not re.fullmatch("1[89][0-9]{2}|[2-9][0-9]{3}", named):
            raise ValueError(f'{imdb}: "{value}" is no year or date')
    return [(category, named)] + ([("role", role)] if category == "person" and role else [])


def features(films, files):
    """Returns the words of each film, counted, and how many answers are about films that are not listed."""
    bags, others = {imdb: collections.Counter() for _, imdb in films}, 0
    for file in files:
        try:
            for n, answer in enumerate(answers(pathlib.Path(file).read_text(encoding="utf-8")), 1):
                try:
                    answer[0] = imdb_id(answer[0])
                    said = words(*answer)
                except ValueError as e:
                    raise ValueError(f"answer {n}: {e}") from None
                if answer[0] in bags:
                    bags[answer[0]].update(said)
                else:
                    others += 1
        except (ValueError, KeyError, csv.Error) as e:
            raise ValueError(f"{file}: {e}") from None
    return bags, others


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--links", required=True, help="links.csv of a MovieLens set, with the columns movieId and imdbId")
    p.add_argument("--queries", type=pathlib.Path, help="folder to write queries to; it must not be there yet")
    p.add_argument("--films", type=int, default=200, help="films of a query: query.wikidata.org ends one after a minute")
    p.add_argument("--out", help="file to write features to, of the answers; it must not be there yet")
    p.add_argument("answers", nargs="*")
    args = p.parse_args()
    if (args.queries is None) == (args.out is None) or args.films < 1 or args.out and not args.answers:
        p.error("say either --queries FOLDER, with at least one film a query, or --out FILE.csv with files of answers")
    films = read_links(args.links)
    if args.queries:
        args.queries.mkdir()
        query = (pathlib.Path(__file__).parent / "query.rq").read_text()
        parts = [films[k : k + args.films] for k in range(0, len(films), args.films)]
        for n, part in enumerate(parts, 1):
            ids = " ".join(f'"{imdb}"' for _, imdb in part)
            (args.queries / f"{n:04d}.rq").write_text(query.replace("IDS", ids, 1))
        print(f"{len(parts)} queries for {len(films)} films in {args.queries}", file=sys.stderr)
        return
    bags, others = features(films, args.answers)
    rows = 0
    with open(args.out, "x", newline="", encoding="utf-8") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["item_id", "category", "value", "weight"])
        for movie, imdb in films:
            first = min((v for c, v in bags[imdb] if c == "year"), default=None)  # a film has one for every country
            for (category, value), weight in sorted(bags[imdb].items()):
                if category != "year" or value == first:
                    out.writerow([movie, category, value, 1 if category == "year" else weight])
                    rows += 1
    known = sum(bool(bags[imdb]) for _, imdb in films)
    print(f"{rows} features of {known} films of {len(films)}; {others} answers were about others", file=sys.stderr)


try:
    main()
except (ValueError, OSError) as e:
    sys.exit(f"wikidata: {e}")
