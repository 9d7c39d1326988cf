package app

import (
	"context"

	"tundish/internal/deliver"
	"tundish/internal/deliver/mail"
	"tundish/internal/destination"
	"tundish/internal/job"
	"tundish/internal/queue"
	"tundish/internal/secret"
)

// senders makes attempts by the kind of their target.
type senders struct {
	http    *deliver.Sender
	mail    *mail.Sender
	secrets *secret.Resolver
}

func newSenders(cfg *WorkerConfig, store *queue.Store) *senders {
	secrets := secret.NewResolver(cfg.sealKeys, cfg.ownFiles()...)
	return &senders{
		secrets: secrets,
		http: deliver.New(deliver.Config{AllowPrivate: cfg.allow, MaxIdlePerTarget: cfg.concurrency, Secrets: secrets,
			Tokens: newTokens(store, cfg.sealKeys)}),
		mail: mail.New(mail.Config{AllowPrivate: cfg.allow, MaxIdlePerTarget: cfg.concurrency, Secrets: secrets}),
	}
}

// Send implements drain.Sender.
func (s *senders) Send(ctx context.Context, a deliver.Attempt) deliver.Result {
	if a.Contract == nil || a.Contract.SMTP == nil {
		return s.http.Send(ctx, a)
	}
	if err := s.secrets.Check(a.Contract); err != nil {
		return deliver.Result{Outcome: job.OutcomeNotSent, Error: err.Error(), Fault: err}
	}
	return s.mail.Send(ctx, a)
}

// check says why nothing can be sent under a contract here.
func (s *senders) check(c *destination.Contract) error {
	if c.SMTP != nil {
		return s.secrets.Check(c)
	}
	return s.http.Check(c)
}

func (s *senders) close() {
	s.http.Close()
	s.mail.Close()
}
