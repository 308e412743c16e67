"""The vocabulary: names of fields, headers, options and variables, in one spelling each."""

from __future__ import annotations

from typing import Final


def words(text: str) -> tuple[str, ...]:
    """A list of words, written as one reads them."""
    return tuple(text.split())


CHOSEN: Final = words("""
    password passwd passwort pwd pass pw psw passcode passw kennwort contrasena senha mot_de_passe wachtwoord
    pin pin_code cvv cvc cvv2 cvc2 security_code otp totp mfa_code otp_code verification_code one_time_code
    auth_code sms_code backup_code recovery_code login_code 2fa_code requirepass masterauth sshpass ldappass mysqlpass smtppass ftppass mailpass adminpass redispass pgpass storepass keypass
    p4passwd userpass dbpass rootpass security_answer magic_code magic_link_code unlock_code passwords
""")
"""What a person chooses or types: weak as a rule."""
PHRASES: Final = words("""
    passphrase pass_phrase seed_phrase mnemonic recovery_phrase seed_words secret_phrase
""")
"""Several words in a row."""
ISSUED: Final = words("""
    secret secrets token apikey api_key x_api_key access_key secret_key secret_access_key private_key privatekey
    signing_key signature_key encryption_key master_key account_key shared_key shared_access_key auth_key
    license_key licence_key service_key storage_key deploy_key session_key app_key application_key consumer_key
    subscription_key integration_key write_key ingest_key ssh_key pgp_key gpg_key tls_key ssl_key hmac_key
    aes_key rsa_key crypto_key root_key admin_key activation_key webhook_key function_key functions_key
    client_key client_key_data server_key registration_key credential credentials creds cred auth csrf xsrf
    csrf_token jwt bearer client_secret sas_token identitytoken registrytoken authtoken accesstoken refreshtoken
    sessiontoken csrfmiddlewaretoken authenticity_token client_assertion recovery_key backup_key
    connection_string connectionstring conn_str connstr conn_string ticket p4ticket encrypted_password
    password_hash passwd_hash basic_auth auth_header secret_value secret_string secretstring private_token
    job_token deploy_token id_token session_token vault_token bot_token user_token api_token api_secret
    app_secret shared_secret hmac_secret webhook_secret jwt_secret cookie_secret session_secret secret_key_base
    encryption_secret _authtoken _auth code_verifier device_code saml_response samlresponse saml_assertion
    personal_access_token userpassword api_keys access_keys secret_keys access_tokens refresh_tokens auth_tokens
""")
"""What a machine makes: long and random as a rule."""
UNSURE: Final = words("""
    session session_id sessionid sid phpsessid jsessionid asp_net_sessionid connect_sid sessid sig signature
    x_amz_signature x_amz_credential x_amz_security_token x_goog_signature x_goog_credential hmac sas assertion
    key host_key public_token publishable_key anon_key device_token push_token pat
""")
"""Secret only where the value looks random."""
HEADERS: Final = words("""
    authorization proxy_authorization cookie set_cookie cookies x_auth_token x_access_token x_amz_security_token
    x_csrf_token x_xsrf_token x_vault_token x_gitlab_token x_shopify_access_token x_goog_api_key x_functions_key
    ocp_apim_subscription_key private_token_header x_authorization x_forwarded_authorization api_key_header
    x_hub_signature x_hub_signature_256 x_slack_signature stripe_signature x_twilio_signature
    x_honeycomb_team x_jfrog_art_api x_j_frog_art_api www_authenticate_token dd_api_key dd_application_key x_api_token x_token apikey_header set_cookie2
""")
"""Headers whose whole value goes."""
PEOPLE: Final = words("""
    full_name fullname first_name firstname last_name lastname middle_name given_name givenname family_name
    familyname maiden_name mothers_maiden_name surname forename vorname nachname customer_name patient_name
    legal_name real_name card_holder cardholder cardholder_name card_holder_name holder_name account_holder
    account_holder_name employee_name passenger_name guest_name beneficiary beneficiary_name contact_name
    contact_person recipient_name sender_name date_of_birth dob birth_date birthdate birthday birth_day
    geburtsdatum street street_address street_name street1 street2 address_line address_line1 address_line2
    address_1 address_2 address1 address2 home_address postal_address mailing_address billing_address
    shipping_address residential_address delivery_address postal_code postcode zip_code zipcode passport
    passport_number passport_no national_id national_id_number national_insurance_number nino nin
    social_security_number social_security ssn tax_id taxid tax_number tin itin sin_number personal_id
    personal_number personnummer aadhaar aadhar cpf curp bsn dni nie id_card id_card_number identity_number
    identity_card drivers_license driver_license driving_licence driving_license license_plate
    medical_record_number mrn health_insurance_number insurance_number phone phone_number phonenumber phone_no
    telephone telephone_number tel mobile mobile_number mobile_phone cell cell_phone cellphone home_phone
    work_phone fax fax_number whatsapp msisdn contact_number caller_number to_number from_number iban
    bank_account account_number bank_account_number routing_number sort_code card_number cardnumber credit_card
    billing_name shipping_name traveler_name traveller_name member_name student_name applicant_name subscriber_name donor_name
    address_line_1 address_line_2 residence residence_address
    home_addr mailing_addr born_on birth_place place_of_birth tax_identification_number tax_payer_id taxpayer_id vat_id
    driver_license_number drivers_license_number driving_licence_number driving_license_number license_number_plate ni_number
    national_insurance_no passport_num social_insurance_number
    credit_card_number cc_number pan email email_address e_mail user_email customer_email contact_email
""")
"""What belongs to a person."""
PERHAPS_PEOPLE: Final = words("""
    display_name displayname client_name owner_name person_name person username_full address customer patient
    applicant attendee line1 line2 card_name cc_name emergency_contact next_of_kin
""")
"""A person only where the value is written like one."""
RUN_TOGETHER: Final = words("""
    password passwd passphrase pwd secret token apikey secretkey accesskey privatekey authkey
""")
"""Endings of names that are written as one word: `dbpassword`, `authtoken`."""
NO_MATTER: Final = words("""
    again b64 base64 bytes confirm confirmation current data default dev env hex live main new old param plain
    plaintext primary prod production raw repeat secondary staging str string test testing text value
""")
"""Endings that change nothing: `password_old`."""
STRONG: Final = words("""
    apikey credential credentials passphrase passwd password pwd secret token
""")
"""Words that make any longer name suspicious."""
ABOUT: Final = words("""
    age alg algorithm arn at attempts audience backend base budget cache callback char chars class client cls
    config count counts created date description dict dir disabled email enabled endpoint engine env_name error
    errors exception exists expiration expired expires expiry factory family field fields file filename fn
    folder form format func getter group handler header_name helper hint host id ids idx index info input
    invalid issuer it key_id keyid kind label len length limit limits list loader mail manager map max meta
    method methods min missing mixin model module ms name names options opts output owner param_name parser path
    pattern per policies policy port pos position present prompt provider rate ratio re regex remaining required
    reset rotation schema scope scopes score seconds section serializer server service set settings size state
    status storage store stream strength time timeout title tokenizer tokens total tries ttl type types unset
    updated uri url usage used user users util utils valid validator validators var variable verified version
    view
""")
"""Endings that make it a fact about a secret: `token_count`, `secret_arn`."""
KEYS_TO_NOTHING: Final = words("""
    alt another any arrow attr attribute bad blob bucket by cache candidate child class column composite config
    context control data dedup dedupe deduplication default delete delivery dict dictionary down end enter
    entity env escape event expected extra field file filter first for foreign get group grouping has hash
    header home hot id idempotency index invalid is item job join json key kind label last left locale lookup
    map mapping max memo merge message meta metric min missing module name natural new next no node object of
    old on option order other param parent partition path press prev primary property public query queue range
    record redis registry required result return right routing row s3 same search set settings shard shift sort
    sorting state stream tag task template the topic translation tree type unique unknown up value variable
    wrong yaml
""")
"""What has a key that opens nothing: `primary_key`, `cache_key`."""
PLAIN_ALONE: Final = words("""
    address cell code customer nonce pan patient person salt sig state street tel tin
""")
"""Terms that say nothing at the end of a longer name: `error_code`."""
COUNTED: Final = words("""
    public no num max min total is has next per cost page continuation idempotency pagination paging cursor
""")
"""Before a term, these make it a number, a place or a question: `max_token`, `next_token`, `has_secret`."""
NOTHING: Final = words("""
    client_request_token output_token input_token pass_through bypass compass surpass trespass overpass underpass encompass
""")
"""Names that only sound like secrets."""
