package kube

import (
	"context"
	"fmt"

	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Reviewer asks the API server who a token belongs to and what a user may do.
type Reviewer struct{ Client kubernetes.Interface }

// ReviewToken answers for one bearer token. Authenticated false in the status is not an error.
func (r Reviewer) ReviewToken(ctx context.Context, token string, audiences []string) (authnv1.TokenReviewStatus,
	error) {
	review := &authnv1.TokenReview{Spec: authnv1.TokenReviewSpec{Token: token, Audiences: audiences}}
	out, err := r.Client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return authnv1.TokenReviewStatus{}, fmt.Errorf("reviewing token: %w", err)
	}
	return out.Status, nil
}

// ReviewAccess answers whether a user may do what the review asks about. A refusal is no error.
func (r Reviewer) ReviewAccess(ctx context.Context,
	spec authzv1.SubjectAccessReviewSpec) (authzv1.SubjectAccessReviewStatus, error) {
	out, err := r.Client.AuthorizationV1().SubjectAccessReviews().
		Create(ctx, &authzv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return authzv1.SubjectAccessReviewStatus{}, fmt.Errorf("reviewing access: %w", err)
	}
	return out.Status, nil
}
