package dataset

import (
	"encoding/json"
	"testing"
)

// An id in JSON is a text or a number, and the same id either way.
func TestIDOfJSON(t *testing.T) {
	for text, want := range map[string]string{
		`"7"`: "7", `7`: "7", `7.0`: "7", `" 7.0"`: "7", `"\ufeffann"`: "ann", `18446744073709551615`: "18446744073709551615",
		`7.5`: "", `null`: "", `"NA"`: "", `true`: "", `[7]`: "", `""`: "", `1.8446744073709552e+19`: "",
	} {
		var got struct{ User ID }
		if err := json.Unmarshal([]byte(`{"user": `+text+`}`), &got); string(got.User) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", text, got.User, err, want)
		}
	}
}
