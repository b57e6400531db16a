package results

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/fedsim/fedsim/dp"
)

// registryFacts are the facts of a run's or a deployment's folder that a registry of deployments asks for.
type registryFacts struct {
	Algorithm   string       `json:"algorithm"`
	Data        string       `json:"data"`
	Secagg      string       `json:"secagg"`
	Mode        string       `json:"mode"`
	Rounds      int          `json:"rounds"`
	Privacy     dp.Statement `json:"privacy"`
	AllSessions *AllSessions `json:"all_sessions"`
}

// fill stands for an answer that only the operator has.
const fill = "TO FILL IN"

// answer is an entry's answer with the topic of NIST SP 800-226 that asks for it.
type answer struct {
	Is   any    `json:"is"`
	NIST string `json:"nist_sp_800_226,omitempty"`
}

// Registry describes a folder for a public registry of deployments and for a hub of models, in files by name. The entry follows
// the three tiers of the registry of OpenDP and NIST (arXiv 2509.13509); each clause of the statement names its topic in NIST
// SP 800-226.
func Registry(dir string) (map[string][]byte, error) {
	var f registryFacts
	if err := readJSON(filepath.Join(dir, "summary.json"), &f); err != nil {
		return nil, err
	}
	s := f.Privacy
	if math.IsInf(s.Epsilon, 1) {
		return nil, fmt.Errorf("%s has no ε, so that a registry of private deployments has no entry for it: train with --epsilon", dir)
	}
	status := "simulation, not deployed"
	trust := map[dp.Trust]string{dp.SecureSum: "federated, secure sums: the parties together may not collude beyond the cohort's bounds",
		dp.Nobody: "local: the client trusts no other party", dp.Shuffler: "shuffled: the client trusts the shuffler"}[s.Trust]
	if IsDeployed(dir) {
		status = "deployed"
	}
	sessions, total := 1, s.Epsilon
	if f.AllSessions != nil && f.AllSessions.Epsilon != nil {
		sessions, total = f.AllSessions.Sessions, *f.AllSessions.Epsilon
	}
	entry, err := json.MarshalIndent(map[string]any{
		"status": status,
		"tier_1": map[string]answer{"curator": {Is: fill}, "intended_use": {Is: fill}, "publication_date": {Is: fill},
			"data_product": {Is: "embeddings of items of a recommender, trained by " + f.Algorithm}},
		"tier_2": map[string]answer{
			"flavor":             {"approximate differential privacy (ε, δ)", "the differential privacy guarantee and its variants"},
			"privacy_unit":       {s.Unit, "the unit of privacy"},
			"privacy_parameters": {map[string]float64{"epsilon": s.Epsilon, "delta": s.Delta}, "the privacy parameter ε, and δ"},
			"deployment_model":   {trust, "trust models and threats"},
		},
		"tier_3": map[string]answer{
			"neighbours":      {s.Relation, "the unit of privacy: neighbouring data sets"},
			"data_domain":     {cmp.Or(f.Data, fill), "the differential privacy guarantee: the data that it covers"},
			"unprotected":     {"participation, the catalogue of items, the configuration", "mixing private with other releases"},
			"composition":     {map[string]any{"accountant": s.Accountant, "rounds": f.Rounds, "sessions": sessions, "epsilon_of_all_sessions": total}, "composition"},
			"sampling":        {s.Sampling, "algorithms: amplification by sampling"},
			"mechanism":       {s.Noise, "algorithms and their noise; challenges of implementing mechanisms"},
			"selection":       {s.Chosen, "composition: settings chosen by the same data"},
			"post_processing": {"recommendations and exports are computed from the released embeddings", "post-processing"},
			"security":        {strings.TrimSpace("secure sums: " + f.Secagg + " " + f.Mode), "data security and access control"},
			"collection":      {"ratings stay with the parties that hold them", "exposure while data are collected"},
			"rationale":       {Is: fill},
		},
		"statement": s.String(),
	}, "", "  ")
	card := fmt.Appendf(nil, "---\ntags: [recommender, differential-privacy, federated-learning]\nlibrary_name: fedsim\n---\n\n# Embeddings of items by %s\n\n%s\n\n"+
		"- Status: %s\n- Statement: `%s`\n- All sessions: %d, ε = %.4g at δ = %v\n- Intended use, licence and limits: %s\n\n"+
		"Check this statement with `fedsim verify FOLDER`.\n", f.Algorithm, s.Words(""), status, s, sessions, total, s.Delta, fill)
	return map[string][]byte{"registry.json": append(entry, '\n'), "README.md": card}, err
}
