package experiment

import (
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

// Algorithm names a way to train.
type Algorithm string

const (
	// LFLSGDMF is matrix factorization with one client per user, secure sums
	// and distributed noise (FMF paper, section 6).
	LFLSGDMF Algorithm = "lfl-sgdmf"
	// VFLSGDMF is matrix factorization between organisations that each own some
	// items and share the users' embeddings (FMF paper, section 4).
	VFLSGDMF Algorithm = "vfl-sgdmf"
	// HFLSGDMF is matrix factorization between organisations that each have
	// some users and share the items' embeddings (FMF paper, section 5).
	HFLSGDMF Algorithm = "hfl-sgdmf"
	// HFLSynSGD averages noisy gradients after every step instead of
	// embeddings after several: what the paper compares HFL-SGDMF with.
	HFLSynSGD Algorithm = "hfl-synsgd"
	// FMFLFL, FMFVFL and FMFHFL are the same without noise.
	FMFLFL Algorithm = "fmf-lfl"
	FMFVFL Algorithm = "fmf-vfl"
	FMFHFL Algorithm = "fmf-hfl"
	// DPALS solves for items from sufficient statistics of at most so many ratings of
	// each user (multi-task paper, algorithm 1), and AdaDPALS of all of them, with weights
	// that favour rare items (algorithm 2).
	DPALS    Algorithm = "dpals"
	AdaDPALS Algorithm = "ada-dpals"
	// DPCMF factors public features of items beside the ratings (DP-CMF paper).
	DPCMF Algorithm = "dp-cmf"
	// SSPC takes the statistics of a round once, with biases before and a single Gramian
	// (am-ssp paper, algorithm 8, in our form); SSPI takes them with fresh noise for every
	// step of the solver (algorithm 2); AMSSP is SSPC as published.
	SSPC  Algorithm = "ssp-c"
	SSPI  Algorithm = "ssp-i"
	AMSSP Algorithm = "am-ssp"
	// SSPConvex has statistics of a convex loss (am-ssp paper, algorithm 7).
	SSPConvex Algorithm = "ssp-convex"
	// PrivateItemBias learns an item's bias and nothing else: what any of these must beat.
	PrivateItemBias Algorithm = "private-item-bias"
	// SGDMF is matrix factorization on all ratings in one place, without
	// privacy: what cooperation without any restraint would reach.
	SGDMF Algorithm = "sgd-mf"
)

// Algorithms lists all of them.
func Algorithms() []Algorithm {
	return []Algorithm{LFLSGDMF, VFLSGDMF, HFLSGDMF, HFLSynSGD, FMFLFL, FMFVFL, FMFHFL,
		DPALS, AdaDPALS, DPCMF, SSPC, SSPI, AMSSP, SSPConvex, PrivateItemBias, SGDMF}
}

// private reports whether the algorithm adds noise where ε is finite.
func (a Algorithm) private() bool {
	switch a {
	case LFLSGDMF, VFLSGDMF, HFLSGDMF, HFLSynSGD:
		return true
	default:
		return a.statistical()
	}
}

// Federated reports whether the algorithm runs through clients, aggregator and
// server.
func (a Algorithm) Federated() bool { return a != SGDMF }

// form is how the parties of an algorithm hold the data.
func (a Algorithm) form() form {
	switch a {
	case VFLSGDMF, FMFVFL:
		return vertical{}
	case HFLSGDMF, HFLSynSGD, FMFHFL:
		return horizontal{}
	case DPALS, AdaDPALS, DPCMF, SSPC, SSPI, AMSSP, SSPConvex, PrivateItemBias:
		return statistics{}
	case SGDMF:
		return central{}
	default:
		return devices{}
	}
}

// vertical reports whether parties own items (VFL).
func (a Algorithm) vertical() bool { return a.form() == vertical{} }

// horizontal reports whether parties have users (HFL).
func (a Algorithm) horizontal() bool { return a.form() == horizontal{} }

// Organisations reports whether parties are organisations and not users.
func (a Algorithm) Organisations() bool { return a.vertical() || a.horizontal() }

// statistical reports whether users sum sufficient statistics.
func (a Algorithm) statistical() bool { return a.form() == statistics{} }

// form is what an experiment does differently depending on who holds which
// ratings.
type form interface {
	// choose replaces every auto of the form's own settings but the learning
	// rates, which follow from the noise.
	choose(e *Experiment) error
	// prepare sets up cohort, release, noise and learning rates.
	prepare(e *Experiment) error
	// strategy makes the server's side, before its first iteration.
	strategy(e *Experiment) (server.Durable, error)
	// parties makes the clients' side: trainers, and who measures what they learn.
	parties(e *Experiment) ([]client.Trainer, parties, error)
	// party makes one client's trainer from the ratings that it has at hand.
	party(e *Experiment, which Holding, h *atHand) (*Party, error)
	// before is what users get without any iteration: stage 1 and fine-tuning.
	before(e *Experiment, run protocol.Runner) (model.Predictor, error)
	// alone is what parties get by training alone; nil where that is no more than
	// before, and where it takes noise, and so a run through the roles
	// ([Experiment.LocalOnly]).
	alone(e *Experiment, run protocol.Runner) (model.Predictor, error)
}
