package app

import (
	"context"
	"net/netip"

	"tundish/internal/deliver"
	"tundish/internal/deliver/mail"
)

// senders makes attempts by the kind of their target.
type senders struct {
	http *deliver.Sender
	mail *mail.Sender
}

func newSenders(allow []netip.Prefix, concurrency int) *senders {
	return &senders{
		http: deliver.New(deliver.Config{AllowPrivate: allow, MaxIdlePerTarget: concurrency}),
		mail: mail.New(mail.Config{AllowPrivate: allow, MaxIdlePerTarget: concurrency}),
	}
}

// Send implements drain.Sender.
func (s *senders) Send(ctx context.Context, a deliver.Attempt) deliver.Result {
	if a.Contract != nil && a.Contract.SMTP != nil {
		return s.mail.Send(ctx, a)
	}
	return s.http.Send(ctx, a)
}

func (s *senders) close() {
	s.http.Close()
	s.mail.Close()
}
