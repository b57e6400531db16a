package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ratings writes ratings of a few users on a few items, as a CSV file.
func ratings(t testing.TB, users, items int) string {
	t.Helper()
	return rated(t, users, items, func(u, i int) int {
		if (u*7+i*3)%5 < 3 {
			return 1 + (u+i*i)%5
		}
		return 0
	})
}

// rated are the ratings that a function gives; 0 is none.
func rated(t testing.TB, users, items int, rating func(u, i int) int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("user,item,rating\n")
	for u := range users {
		for i := range items {
			if r := rating(u, i); r != 0 {
				fmt.Fprintf(&b, "u%02d,i%02d,%d\n", u, i, r)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "ratings.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// features are a category of the items of ratings, as a CSV file.
func features(t testing.TB, items int) string {
	t.Helper()
	text := "item_id,category,value\n"
	for i := range items {
		text += fmt.Sprintf("i%02d,kind,%c\n", i, 'a'+i%3)
	}
	path := filepath.Join(t.TempDir(), "features.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
