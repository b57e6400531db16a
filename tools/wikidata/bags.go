package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Categories that are treated in their own way.
const (
	yearCategory   = "year"
	personCategory = "person"
	roleCategory   = "role"
)

// bags are bags of words: how often each value of a category was said of a film.
type bags struct {
	films  []link
	known  map[string]bool
	of     map[string]map[word]int // by IMDb id
	others int                     // answers about films that are not listed
}

// word is a value of a category.
type word struct{ category, value string }

func newBags(films []link) *bags {
	b := &bags{films: films, known: make(map[string]bool), of: make(map[string]map[word]int)}
	for _, f := range films {
		b.known[f.imdb] = true
	}
	return b
}

// add counts an answer. An answer with a person counts the person's role, too.
func (b *bags) add(a answer) error {
	id, err := imdbID(a.imdb)
	if err != nil {
		return err
	}
	value := named(a.value, a.label)
	switch {
	case a.category == "" || value == "":
		return fmt.Errorf("%s: the category is %q and the value %q; neither may be empty", id, a.category, value)
	case a.category == yearCategory:
		if value, err = year(a.value); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	case a.category == roleCategory:
		return fmt.Errorf("%s: roles are counted by persons; there is no category role in an answer", id)
	}
	if !b.known[id] {
		b.others++
		return nil
	}
	if b.of[id] == nil {
		b.of[id] = make(map[word]int)
	}
	b.of[id][word{a.category, value}]++
	if a.category == personCategory && a.role != "" {
		b.of[id][word{roleCategory, a.role}]++
	}
	return nil
}

// named is the name of an entity with its number, since names are not unique, and any other value as it is.
func named(value, label string) string {
	number, entity := strings.CutPrefix(value, "http://www.wikidata.org/entity/")
	if !entity || label == "" {
		return number
	}
	return label + " (" + number + ")"
}

// year reads a year, or the date that it begins.
func year(text string) (string, error) {
	digits, _, _ := strings.Cut(text, "-")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1800 || n > 9999 {
		return "", fmt.Errorf("%q is no year or date", text)
	}
	return digits, nil
}

// described is of how many films something is known.
func (b *bags) described() int {
	n := 0
	for _, f := range b.films {
		if len(b.of[f.imdb]) > 0 {
			n++
		}
	}
	return n
}

// write writes the features in the order of the films, then of categories and values. Of the years of a
// film, which has one for every country that it was shown in, the first counts.
func (b *bags) write(to io.Writer) (rows int, err error) {
	w := csv.NewWriter(to)
	if err = w.Write([]string{"item_id", "category", "value", "weight"}); err != nil {
		return 0, err
	}
	for _, f := range b.films {
		bag := b.of[f.imdb]
		first := ""
		for _, x := range slices.SortedFunc(maps.Keys(bag), func(a, b word) int {
			return strings.Compare(a.category+"\x00"+a.value, b.category+"\x00"+b.value)
		}) {
			weight := bag[x]
			if x.category == yearCategory {
				if first != "" {
					continue
				}
				first, weight = x.value, 1
			}
			if err = w.Write([]string{f.movie, x.category, x.value, strconv.Itoa(weight)}); err != nil {
				return rows, err
			}
			rows++
		}
	}
	w.Flush()
	return rows, w.Error()
}
