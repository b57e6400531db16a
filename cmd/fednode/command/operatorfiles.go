package command

import (
	"strings"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/hub"
)

func invitationFile(p admission.Place) string {
	return strings.ReplaceAll(p.String(), " ", "-") + ".json"
}

func readTickets(path string, f *admission.Federation) ([]admission.Ticket, error) {
	return admission.ReadFile(path, func(text []byte) ([]admission.Ticket, error) { return hub.ParseTickets(text, f) })
}

func readRevocations(path string, f *admission.Federation) (*admission.Revocations, error) {
	return admission.ReadFile(path, func(text []byte) (*admission.Revocations, error) {
		r, err := admission.ParseRevocations(text)
		if err != nil {
			return nil, err
		}
		return r, r.Verify(f)
	})
}

func parsePlaces(flag string, texts []string) ([]admission.Place, error) {
	var places []admission.Place
	for _, text := range texts {
		p, err := admission.ParsePlace(text)
		if err != nil {
			return nil, cli.Misusef("%s: %w", flag, err)
		}
		places = append(places, p)
	}
	return places, nil
}
