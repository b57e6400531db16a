package internal_test

import (
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/strictjson"
)

// Texts that readers understand differently, by RFC 8259, section 4, and by how encoding/json finds fields, are refused.
func TestStrictJSON(t *testing.T) {
	type value struct {
		Name string            `json:"name"`
		List []map[string]int  `json:"list"`
		Map  map[string]string `json:"map"`
	}
	for text, want := range map[string]string{
		`{"name": "a", "list": [{"a": 1}, {"a": 2}], "map": {"a": "name", "b": "name"}}`: "",
		` {} `: "", "null": "null", " null\n": "null", "": "EOF", `{"name": "a"`: "EOF", `{} {}`: "follows", `{"other": 1}`: "unknown field",
		`{"name": "a", "name": "a"}`: `"name" is there twice`, `{"name": "a", "Name": "b"}`: `"Name" is there twice`, `{"name": "a", "n\u0061me": "b"}`: `"name" is there twice`,
		`{"list": [{"a": 1}, {"a": 1, "b": 2, "a": 3}]}`: `"a" is there twice`, `{"map": {"name": "a"}, "name": "b", "map": {}}`: `"map" is there twice`,
	} {
		err := strictjson.Read([]byte(text), new(value))
		if got := ""; err != nil {
			if got = err.Error(); want == "" || !strings.Contains(got, want) {
				t.Errorf("%s: %s; want %q", text, got, want)
			}
		} else if want != "" {
			t.Errorf("%s is read; want %q", text, want)
		}
	}
	// Keys of a table are data, where letters count.
	if err := strictjson.Once([]byte(`{"user": 1, "User": 2}`)); err != nil {
		t.Error(err)
	}
}
