"""What tests share: servers, clients that are not ours, builders of archives."""
