// Wikidata makes item features for fedsim from Wikidata's entries on the films of MovieLens (AM-SSP
// paper, appendix E.1.1): year, genre, extended genre, person and role, as bags of words. A word that
// stands twice has the weight 2. It opens no connection. First it writes queries, for so many films
// each:
//
//	go run -C tools ./wikidata -links ml-25m/links.csv -queries queries -films 200
//
// Give the queries to https://query.wikidata.org, for example with:
//
//	curl -G https://query.wikidata.org/sparql -H 'Accept: text/csv' --data-urlencode query@queries/0001.rq > 0001.csv
//
// Then it makes one CSV of all answers, in JSON or CSV as they were returned:
//
//	go run -C tools ./wikidata -links ml-25m/links.csv -out wikidata.csv 0001.csv 0002.csv ...
//	fedsim run --data ml-25m --algorithm am-ssp --features genres,wikidata.csv
//
// Paths are relative to tools. Wikidata's content has the licence CC0.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

//go:embed query.rq
var query string

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "wikidata:", err)
		os.Exit(1)
	}
}

// run does what the arguments say.
func run(args []string, log io.Writer) error {
	flags := flag.NewFlagSet("wikidata", flag.ContinueOnError)
	flags.SetOutput(log)
	links := flags.String("links", "", "links.csv of a MovieLens set, with the columns movieId and imdbId")
	queries := flags.String("queries", "", "folder to write queries to; it must not be there yet")
	films := flags.Int("films", 200, "films of a query: query.wikidata.org ends one after a minute")
	out := flags.String("out", "", "file to write features to, of the answers that are named behind the flags; it must not be there yet")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *links == "":
		return errors.New("say where the film ids are: -links links.csv")
	case (*queries == "") == (*out == ""):
		return errors.New("say either -queries FOLDER or -out FILE.csv with files of answers")
	case *films < 1:
		return fmt.Errorf("-films %d: want at least 1", *films)
	case *out != "" && flags.NArg() == 0:
		return errors.New("-out: no file of answers is named")
	}
	list, err := readLinks(*links)
	if err != nil {
		return err
	}
	if *queries != "" {
		return writeQueries(*queries, list, *films, log)
	}
	b := newBags(list)
	for _, file := range flags.Args() {
		if err = b.read(file); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(*out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	rows, err := b.write(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(*out))
	}
	fmt.Fprintf(log, "%d features of %d films of %d; %d answers were about others\n", rows, b.described(), len(list), b.others)
	return nil
}

// writeQueries writes the query for every so many films.
func writeQueries(dir string, list []link, films int, log io.Writer) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	n := 0
	for from := 0; from < len(list); from += films {
		var ids []string
		for _, l := range list[from:min(from+films, len(list))] {
			ids = append(ids, fmt.Sprintf("%q", l.imdb))
		}
		n++
		text := strings.Replace(query, "IDS", strings.Join(ids, " "), 1)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d.rq", n)), []byte(text), 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(log, "%d queries for %d films in %s\n", n, len(list), dir)
	return nil
}
