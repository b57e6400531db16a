package results

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The entry has the three tiers of the registry's page on transparency (registry.opendp.org), and states the summary's own numbers. A
// run without ε has none.
func TestRegistryStatesTheSummary(t *testing.T) {
	dir := t.TempDir()
	write := func(epsilon, ofAll string) {
		text := `{"algorithm":"ssp-c","data":"films","secagg":"ideal","rounds":7,"all_sessions":{"sessions":3,"epsilon":` + ofAll + `},
"privacy":{"epsilon":` + epsilon + `,"delta":1e-5,"unit":"user","relation":"zero-out","accountant":"gdp-skellam","sampling":"none","noise":"skellam"}}`
		if err := os.WriteFile(filepath.Join(dir, "summary.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("5", "6.5")
	files, err := Registry(dir)
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		Status string                       `json:"status"`
		Tier1  map[string]map[string]string `json:"tier_1"`
		Tier2  map[string]struct {
			Is   any    `json:"is"`
			NIST string `json:"nist_sp_800_226"`
		} `json:"tier_2"`
		Tier3 map[string]struct{ Is any } `json:"tier_3"`
	}
	if err = json.Unmarshal(files["registry.json"], &e); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"curator", "intended_use", "publication_date"} {
		if e.Tier1[k]["is"] != "TO FILL IN" {
			t.Errorf("%s is %q, which only the operator knows", k, e.Tier1[k])
		}
	}
	p, _ := e.Tier2["privacy_parameters"].Is.(map[string]any)
	c, _ := e.Tier3["composition"].Is.(map[string]any)
	if p["epsilon"] != 5.0 || p["delta"] != 1e-5 || e.Tier2["privacy_unit"].Is != "user" || e.Tier2["flavor"].NIST == "" || e.Tier2["deployment_model"].NIST == "" {
		t.Errorf("tier 2: %+v", e.Tier2)
	}
	if c["epsilon_of_all_sessions"] != 6.5 || c["sessions"] != 3.0 || c["rounds"] != 7.0 {
		t.Errorf("composition: %+v", c)
	}
	if card := string(files["README.md"]); !strings.Contains(card, "All sessions: 3, ε = 6.5 at δ = 1e-05") {
		t.Error(card)
	}
	if e.Tier3["selection"].Is != "none" {
		t.Errorf("no search chose the settings, and selection is %v", e.Tier3["selection"].Is)
	}
	for _, c := range [][2]string{{"null", "6.5"}, {"5", "null"}} { // the second starts from a session without noise
		write(c[0], c[1])
		if _, err = Registry(dir); err == nil || !strings.Contains(err.Error(), "--epsilon") {
			t.Errorf("ε %s of the run and %s of all sessions: %v", c[0], c[1], err)
		}
	}
}

// An entry says where the data are and what ε does not cover. One party may hold all data, ε may have no δ, and the model may be of a
// regression. Users may have given their ratings openly.
func TestRegistrySaysWhereDataAre(t *testing.T) {
	entry := func(secagg, privacy string) string {
		dir := t.TempDir()
		text := `{"algorithm":"x","secagg":"` + secagg + `","rounds":1,"privacy":{"epsilon":2,` + privacy + `}}`
		if err := os.WriteFile(filepath.Join(dir, "summary.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files, err := Registry(dir)
		if err != nil {
			t.Fatal(err)
		}
		return string(files["registry.json"]) + string(files["README.md"])
	}
	const skellam = `"sampling":"none","noise":"skellam"`
	sums := entry("ideal", `"delta":1e-5,"unit":"user","relation":"zero-out","accountant":"gdp-skellam",`+skellam+`,"open":20`)
	place := entry("none", `"delta":0,"unit":"example","relation":"label","accountant":"pure","sampling":"none","noise":"randomized-response"`)
	inSums := []string{"federated, secure sums", "stay with the parties", "approximate", "Embeddings of items", "the ratings of 20 users who gave them openly"}
	inPlace := []string{"central: one party holds all data", "one party collects", "pure differential privacy", "Weights of a regression", "the public features of examples"}
	for i := range inSums {
		if !strings.Contains(sums, inSums[i]) || strings.Contains(place, inSums[i]) {
			t.Errorf("%q is to be in the first alone:\n%s\n%s", inSums[i], sums, place)
		}
		if !strings.Contains(place, inPlace[i]) || strings.Contains(sums, inPlace[i]) {
			t.Errorf("%q is to be in the second alone:\n%s\n%s", inPlace[i], sums, place)
		}
	}
}
