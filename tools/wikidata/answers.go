package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// link is a film of MovieLens and its IMDb id, as Wikidata writes it: tt0114709.
type link struct{ movie, imdb string }

// readLinks reads a links.csv; films without an IMDb id are left out.
func readLinks(file string) ([]link, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read-only: nothing can be lost
	r := csv.NewReader(f)
	head, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	movie, imdb := slices.Index(head, "movieId"), slices.Index(head, "imdbId")
	if movie < 0 || imdb < 0 {
		return nil, fmt.Errorf("%s: the first line is %q; it must have movieId and imdbId", file, head)
	}
	var list []link
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if row[imdb] == "" {
			continue
		}
		id, err := imdbID(row[imdb])
		if err != nil {
			line, _ := r.FieldPos(imdb)
			return nil, fmt.Errorf("%s:%d: %w", file, line, err)
		}
		list = append(list, link{row[movie], id})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no films", file)
	}
	return list, nil
}

// imdbID writes 114709, 0114709 and tt0114709 alike: with at least seven digits behind tt.
func imdbID(text string) (string, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "tt"), 10, 40)
	if err != nil {
		return "", fmt.Errorf("the IMDb id %q is no number", text)
	}
	return fmt.Sprintf("tt%07d", n), nil
}

// answer is a row of an answer: one thing about a film.
type answer struct{ imdb, category, value, label, role string }

// column names of an answer; label and role may be missing.
var columns = []string{"imdb", "category", "value", "label", "role"}

// answerOf puts fields in their places.
func answerOf(field func(name string) string) answer {
	return answer{field("imdb"), field("category"), field("value"), field("label"), field("role")}
}

// read adds the answers of a file, JSON or CSV.
func (b *bags) read(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parse := parseCSV
	if trimmed := bytes.TrimSpace(text); bytes.HasPrefix(trimmed, []byte("{")) {
		parse = parseJSON
	}
	list, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for i, a := range list {
		if err = b.add(a); err != nil {
			return fmt.Errorf("%s: answer %d: %w", file, i+1, err)
		}
	}
	return nil
}

// parseJSON reads SPARQL 1.1 query results in JSON.
func parseJSON(text []byte) ([]answer, error) {
	var results struct {
		Head    struct{ Vars []string }
		Results struct {
			Bindings []map[string]struct{ Value string }
		}
	}
	if err := json.Unmarshal(text, &results); err != nil {
		return nil, err
	}
	if err := checkColumns(results.Head.Vars); err != nil {
		return nil, err
	}
	var list []answer
	for _, row := range results.Results.Bindings {
		list = append(list, answerOf(func(name string) string { return row[name].Value }))
	}
	return list, nil
}

// parseCSV reads SPARQL 1.1 query results in CSV.
func parseCSV(text []byte) ([]answer, error) {
	rows, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff")))).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errors.New("it is empty; an answer without rows has a line of column names")
	}
	if err = checkColumns(rows[0]); err != nil {
		return nil, err
	}
	var list []answer
	for _, row := range rows[1:] {
		list = append(list, answerOf(func(name string) string {
			if k := slices.Index(rows[0], name); k >= 0 {
				return row[k]
			}
			return ""
		}))
	}
	return list, nil
}

// checkColumns reports columns that are missing.
func checkColumns(have []string) error {
	for _, name := range columns[:3] {
		if !slices.Contains(have, name) {
			return fmt.Errorf("the columns are %q; want %q of the query; the last two may be missing", have, columns)
		}
	}
	return nil
}
